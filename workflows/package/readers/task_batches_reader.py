"""Task batches: checked and reported, since workers do not execute them yet."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from workflows.package.files.package_files import read_task_batches
from workflows.package.findings import Findings

_BATCH_LISTS = ("batches", "conveyors")
_AGENT_FIELDS = ("trigger_agent", "decomposition_agent", "execution_agents")


def report_task_batches(folder: Path, findings: Findings, *, agents: Collection[str]) -> None:
    """Checks the file. Without `agents` the names of agents are not checked."""
    file = read_task_batches(folder, findings)
    if file is None or not file.is_readable:
        return
    if file.body in ({}, []):
        return
    body = file.body if isinstance(file.body, Mapping) else {}
    if not any(key in body for key in _BATCH_LISTS):
        findings.add("warning", "wrong_type", file.name, "", "must be a mapping with a list called batches")
    for key in _BATCH_LISTS:
        _check_shape(body.get(key), key, file.name, findings)
        for place, name in _iter_named_agents(body.get(key), key) if agents else ():
            if name not in agents:
                message = f"{name[:100]} is not an agent of this package; correct it, or add the agent"
                findings.add("warning", "unknown_agent", file.name, place, message)
    message = "task batches are not executed yet, so their results never exist; remove the file and route without them"
    findings.add_blocking("task_batches", file.name, "", message)


def _check_shape(entries: Any, key: str, file: str, findings: Findings) -> None:
    if entries is not None and not isinstance(entries, list):
        findings.add("warning", "wrong_type", file, key, "must be a list")
        return
    for index, entry in enumerate(entries or ()):
        if not isinstance(entry, Mapping) or not isinstance(entry.get("id"), str):
            findings.add("warning", "wrong_type", file, f"{key}[{index}]", "must be a mapping with an id")


def _iter_named_agents(entries: Any, key: str) -> Iterator[tuple[str, str]]:
    for index, entry in enumerate(entries if isinstance(entries, list) else ()):
        for field in _AGENT_FIELDS if isinstance(entry, Mapping) else ():
            value = entry.get(field)
            listed = enumerate(value) if isinstance(value, list) else ()
            names = [(f"{field}[{number}]", agent) for number, agent in listed] or [(field, value)]
            yield from ((f"{key}[{index}].{place}", name) for place, name in names if isinstance(name, str))
