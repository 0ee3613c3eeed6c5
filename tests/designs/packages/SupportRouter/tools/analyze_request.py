from workflows.tools import set_context_variable


async def analyze_request(domain: str, context_variables):
    set_context_variable(context_variables, "current_domain", domain)
    return {"domain": domain}
