"""Checks of prompts: they are sent as they are written, and their agents see only what is exposed to them."""

from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from workflows.package.checks.known import agent_place, agents_file, known_names, orchestrator_file
from workflows.package.checks.prompt_names import braced_names, member_names, prompt_names
from workflows.package.findings import Findings
from workflows.package.models import ALL_AGENTS, Package


def check_prompts(package: Package, findings: Findings) -> None:
    """A value reaches a prompt only as an exposed variable."""
    known = known_names(package)
    hooked = {hook.agent for hook in package.hooks if hook.kind == "update_agent_state"}
    for name, agent in package.agents.items():
        if ALL_AGENTS in hooked or name in hooked:  # the hook may fill in anything
            continue
        exposed = frozenset(package.exposed.get(name, ()))
        for said in dict.fromkeys(_said(agent.system_message, known)):
            if said in exposed:
                continue
            if said in known:
                code = "not_exposed"
                message = f"the prompt names {said}, which {name} cannot see; expose it to {name} in context_variables"
            else:
                code = "unknown_in_prompt"
                message = f"the prompt names {said}, which is neither a variable nor an input; define and expose it"
            findings.add("warning", code, agents_file(package), agent_place(package, name), message)


def check_first_message(package: Package, findings: Findings) -> None:
    if any(hook.kind != "update_agent_state" for hook in package.hooks):  # it may fill in anything
        return
    text = package.orchestrator.initial_message or ""
    names = [*prompt_names(text), *(each for each in braced_names(text) if each in known_names(package))]
    for name in dict.fromkeys(names):
        message = f"names {name} to be filled in, and is sent as it is written; write it out, and expose {name} instead"
        findings.add("warning", "unknown_placeholder", orchestrator_file(package), "initial_message", message)


def _said(prompt: str, known: AbstractSet[str]) -> Iterator[str]:
    """In one brace a word may mean anything, unless it is known; after `context_variables.` it is a variable."""
    yield from prompt_names(prompt)
    yield from (each for each in braced_names(prompt) if each in known)
    yield from (each for each in member_names(prompt) if each not in known)
