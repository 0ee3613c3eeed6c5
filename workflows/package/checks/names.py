"""Checks of names: exposures of what does not exist, prompts that name what their agent cannot see."""

import re

from workflows.package.checks.known import agent_place, agents_file, known_names, orchestrator_file, variables_file
from workflows.package.findings import Findings
from workflows.package.models import ALL_AGENTS, Package

_PLACEHOLDER = re.compile(
    r"\$\{\s*+([A-Za-z_]\w*+)\s*+\}"
    r"|\{\{\s*+(?:(?:runtime|context|context_variables)\.)?([A-Za-z_]\w*+)\s*+\}\}"
)


def check_exposures(package: Package, findings: Findings) -> None:
    known = known_names(package)
    key = package.orchestrator.failure_message_key
    if key is not None and key not in known:
        message = f"is {key}, which is neither a variable nor an input; define it, so that it is known who explains"
        findings.add("warning", "undefined_variable", orchestrator_file(package), "failure_message_key", message)
    file = variables_file(package)
    for agent, names in package.exposed.items():
        path = f"agents.{agent}"
        if agent not in package.agents:
            message = f"{agent} is not an agent of this package; correct the name or remove the entry"
            findings.add("warning", "unknown_agent", file, path, message)
        for name in names:
            if name not in known:
                message = f"exposes {name}, which is neither a variable nor an input; define it or remove it here"
                findings.add("warning", "undefined_variable", file, path, message)


def check_prompts(package: Package, findings: Findings) -> None:
    """Prompts are sent as they are written: a value reaches them only as an exposed variable."""
    known = known_names(package)
    hooked = {hook.agent for hook in package.hooks if hook.kind == "update_agent_state"}
    for name, agent in package.agents.items():
        if ALL_AGENTS in hooked or name in hooked:  # the hook may fill in anything
            continue
        exposed = frozenset(package.exposed.get(name, ()))
        for said in prompt_names(agent.system_message):
            if said in exposed:
                continue
            if said in known:
                code = "not_exposed"
                message = f"the prompt names {said}, which {name} cannot see; expose it to {name} in context_variables"
            else:
                code = "unknown_in_prompt"
                message = f"the prompt names {said}, which is neither a variable nor an input; define and expose it"
            findings.add("warning", code, agents_file(package), agent_place(package, name), message)


def prompt_names(prompt: str) -> list[str]:
    """Outside of fenced code; UPPER_CASE ones are not ours: hooks fill them."""
    found = (match[1] or match[2] for text in prompt.split("```")[::2] for match in _PLACEHOLDER.finditer(text))
    return [name for name in dict.fromkeys(found) if not name.isupper()]
