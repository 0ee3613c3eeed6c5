from workflows.tools import set_context_variable


async def open_ticket(context_variables):
    set_context_variable(context_variables, "trail", ["open_ticket"])
