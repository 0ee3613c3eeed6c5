from workflows.tools import ContextVariables


async def count_turn(context_variables: ContextVariables) -> None:
    context_variables.set("router_turns", context_variables.get("router_turns", 0) + 1)
