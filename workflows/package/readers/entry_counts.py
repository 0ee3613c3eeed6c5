"""Numbers of entries in the raw files, before any is merged or refused."""

from collections.abc import Iterable, Mapping
from typing import Any

from workflows.package.files.package_files import PackageFile
from workflows.package.findings import Findings
from workflows.package.normal_form.package_model import EntryCounts
from workflows.package.readers.section import Section
from workflows.package.readers.tools.hooks_reader import HOOK_LISTS, is_lifecycle_entry
from workflows.package.readers.variables.variable_definitions import read_definitions

_TOOL_LISTS = ("tools", "backend_tools", "ui_tools")
_RULE_LISTS = ("handoff_rules", "transition_rules", "handoffs", "transitions", "transition_graph")
_VARIABLE_LISTS = (
    "definitions",
    "variables",
    "database_variables",
    "environment_variables",
    "declarative_variables",
    "derived_variables",
)


def count_entries(files: Mapping[str, PackageFile]) -> EntryCounts:
    """Counts the entries of the used files.

    Of handoffs and transition_graph only one is used.
    """

    def body(*stems: str) -> Any:
        return next((files[stem].body for stem in stems if stem in files), {})

    hooks = body("hooks", "middleware")
    moments = sum(is_lifecycle_entry(entry, key) for key in HOOK_LISTS for entry in _as_list(_value_at(hooks, key)))
    return EntryCounts(
        agents=_count_agents(body("agents")),
        tools=_count_in_lists(body("tools"), _TOOL_LISTS),
        lifecycle_tools=_count_in_lists(body("tools"), ("lifecycle_tools",)) + moments,
        handoffs=_count_rules(body("handoffs", "transition_graph")),
        variables=_count_variables(body("context_variables")),
        models=_count_items(_value_at(body("structured_outputs"), "models")),
        hooks=sum(_count_items(_value_at(hooks, key)) for key in HOOK_LISTS) - moments,
        triggers=_count_items(_value_at(body("triggers", "orchestrator"), "triggers")),
    )


def _value_at(body: Any, key: str) -> Any:
    return body.get(key) if isinstance(body, Mapping) else None


def _as_list(entries: Any) -> Iterable[Any]:
    return entries if isinstance(entries, list) else ()


def _count_items(entries: Any) -> int:
    return len(entries) if isinstance(entries, list | Mapping) else 0


def _count_agents(body: Any) -> int:
    """Counts agents under `agents` or at the root.

    At the root, other values than mappings are fields such as the version.
    """
    if isinstance(body, Mapping) and "agents" in body:
        return _count_items(body["agents"])
    entries: Iterable[Any] = body.values() if isinstance(body, Mapping) else ()
    return sum(isinstance(entry, Mapping) or entry is None for entry in entries)


def _count_in_lists(body: Any, keys: tuple[str, ...]) -> int:
    """Counts the entries of lists, and of mappings from an agent to its list."""
    lists = (_value_at(body, key) for key in keys)
    return sum(
        sum(map(_count_items, entries.values())) if isinstance(entries, Mapping) else _count_items(entries)
        for entries in lists
    )


def _count_rules(body: Any) -> int:
    """Counts rules under any of the root names, which may be nested."""
    if isinstance(body, list):
        return len(body)
    return sum(_count_rules(body[key]) for key in _RULE_LISTS if key in body) if isinstance(body, Mapping) else 0


def _count_variables(body: Any) -> int:
    if not isinstance(body, Mapping):
        return 0
    if "definitions" in body or "variables" in body or any(isinstance(body.get(key), list) for key in _VARIABLE_LISTS):
        return sum(_count_items(body.get(key)) for key in _VARIABLE_LISTS)
    flat = Section(body, file="", path="", findings=Findings())
    return sum(1 for _ in read_definitions(flat))
