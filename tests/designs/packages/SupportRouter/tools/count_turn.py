async def count_turn(context_variables):
    context_variables.set("router_turns", context_variables.get("router_turns", 0) + 1)
