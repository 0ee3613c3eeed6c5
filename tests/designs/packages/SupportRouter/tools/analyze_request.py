from workflows.tools import ContextVariables, set_context_variable


async def analyze_request(domain: str, context_variables: ContextVariables) -> dict[str, str]:
    set_context_variable(context_variables, "current_domain", domain)
    return {"domain": domain}
