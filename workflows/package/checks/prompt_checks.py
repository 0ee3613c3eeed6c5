"""Checks of prompts: unfilled placeholders, and names without exposure."""

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet

from workflows.context.expressions.prompt_templates import split_fenced
from workflows.package.checks.file_places import agent_place, agents_file, orchestrator_file
from workflows.package.checks.known_names import known_names
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import ALL_AGENTS, Agent, Package

_PLACEHOLDER = re.compile(
    r"\$\{\s*+([A-Za-z_]\w*+)\s*+\}"
    r"|\{\{\s*+(?:(?:runtime|context|context_variables)\.)?([A-Za-z_]\w*+)\s*+\}\}"
)
_BRACED_NAME = re.compile(r"(?<![^\s(])\{([a-z][a-z0-9_]*+)\}(?![^\s.,;:!?)])")
_QUOTED_TEXT = re.compile(r""""[^"\n]*+"|`[^`\n]*+`|“[^“”\n]*+”|(?<!\w)'[^'\n]*+'(?!\w)""")
_JSON_KEY = re.compile(r'""\s*+:')
_MEMBER = re.compile(r"(?<![\w./$])context_variables\.([A-Za-z_]\w*+)(?!\s*+\()")
# Words after `context_variables.` that are not variables: file suffixes, fields of the file, and `data`.
_NON_VARIABLES = frozenset({"json", "yaml", "yml", "definitions", "variables", "agents", "data"})


def check_prompts(package: Package, findings: Findings) -> None:
    """Reports names in a prompt that the agent does not see.

    A value reaches a prompt only by exposure.
    """
    known = known_names(package)
    hooked = {hook.agent for hook in package.hooks if hook.kind == "update_agent_state"}
    misspelt = {finding.path for finding in findings.all if finding.code == "misspelt_prompt"}
    for name, agent in package.agents.items():
        if ALL_AGENTS in hooked or name in hooked:  # the hook may fill placeholders
            continue
        if not agent.system_message.strip():
            _report_missing_prompt(package, agent, findings, misspelt)
            continue
        exposed = frozenset(package.exposures.get(name, ()))
        for reference in dict.fromkeys(_find_referenced_names(agent.system_message, known)):
            if reference in exposed:
                continue
            if reference in known:
                code = "not_exposed"
                message = f"the prompt names {reference}, which {name} cannot see; expose it in context_variables"
            else:
                code = "unknown_in_prompt"
                message = f"the prompt names {reference}, which is not a variable or an input; define and expose it"
            findings.add("warning", code, agents_file(package), agent_place(package, name), message)


def _report_missing_prompt(
    package: Package, agent: Agent, findings: Findings, misspelt_paths: AbstractSet[str]
) -> None:
    place = agent_place(package, agent.name)
    if agent.max_consecutive_auto_reply == 0 or any(path.startswith(f"{place}.") for path in misspelt_paths):
        return  # it never speaks, or its misspelt prompt is an error already
    message = "has no prompt, so its model gets no instructions; write system_message or prompt_sections"
    findings.add("warning", "no_prompt", agents_file(package), place, message)


def check_first_message(package: Package, findings: Findings) -> None:
    if any(hook.kind != "update_agent_state" for hook in package.hooks):  # a hook may fill placeholders
        return
    text = package.orchestrator.initial_message or ""
    names = [*find_placeholder_names(text), *(name for name in find_braced_names(text) if name in known_names(package))]
    for name in dict.fromkeys(names):
        message = (
            f"has a placeholder for {name}, which is not filled; remove it, and expose {name} to the agent instead"
        )
        findings.add("warning", "unknown_placeholder", orchestrator_file(package), "initial_message", message)


def _find_referenced_names(prompt: str, known_names: AbstractSet[str]) -> Iterator[str]:
    """Yields the names that a prompt refers to.

    Yields `{word}` only if it is known, and `context_variables.word` only if it is not.
    """
    yield from find_placeholder_names(prompt)
    yield from (name for name in find_braced_names(prompt) if name in known_names)
    yield from (name for name in find_member_names(prompt) if name not in known_names)


def find_placeholder_names(prompt: str) -> list[str]:
    """Returns the names in `${name}` and `{{name}}`.

    UPPER_CASE names are left to hooks.
    """
    found = (match[1] or match[2] for text in _unfenced_parts(prompt) for match in _PLACEHOLDER.finditer(text))
    return [name for name in dict.fromkeys(found) if not name.isupper()]


def find_member_names(prompt: str) -> list[str]:
    """Returns the names in `context_variables.name`, without method calls."""
    found = dict.fromkeys(name for text in _unfenced_parts(prompt) for name in _MEMBER.findall(text))
    return [name for name in found if name not in _NON_VARIABLES]


def find_braced_names(prompt: str) -> list[str]:
    """Returns the names in `{name}`, the early form.

    The name is a separate word, neither quoted nor part of JSON.
    """
    return list(dict.fromkeys(name for text in _unfenced_parts(prompt) for name in _find_braced(text)))


def _unfenced_parts(prompt: str) -> list[str]:
    return [text for text, is_code in split_fenced(prompt) if not is_code]


def _find_braced(text: str) -> Iterator[str]:
    depth = 0  # of braces in JSON over several lines
    for line in _QUOTED_TEXT.sub('""', _PLACEHOLDER.sub("x", text)).splitlines():
        rest = _BRACED_NAME.sub("", line)
        braces = rest.count("{"), rest.count("}")
        if not depth and braces == (0, 0) and not _JSON_KEY.search(line):
            yield from _BRACED_NAME.findall(line)
        depth = max(0, depth + braces[0] - braces[1])
