from workflows.tools import ContextVariables, set_context_variable


async def open_ticket(context_variables: ContextVariables) -> None:
    set_context_variable(context_variables, "trail", ["open_ticket"])
