"""The reader of structured outputs: models, and the model of each agent."""

from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from workflows.package.normal_form.structured_outputs import (
    ModelRef,
    OutputModel,
    OutputType,
    StructuredOutputs,
    UnionOf,
)
from workflows.package.readers.outputs.named_entries import read_named_entries
from workflows.package.readers.outputs.output_types_reader import OutputTypeReader
from workflows.package.readers.section import Section


def read_structured_outputs(
    section: Section, *, agents: frozenset[str], required: frozenset[str] = frozenset()
) -> StructuredOutputs:
    """Reads models and registry.

    `required`: the agents that declare that they reply with a model.
    """
    entries = dict(read_named_entries(section, "models"))
    types = OutputTypeReader(frozenset(entries))
    models = {name: _read_model(entry, name, types) for name, entry in entries.items()}
    _check_aliases(section, models)
    registry = _read_registry(section, agents, models, types)
    for agent in sorted(required - registry.keys()):
        message = f"has no model for {agent}, which has structured_outputs_required: true; add {agent}: <model>"
        section.error("missing_model", "registry", message)
    section.skip_metadata("NOTE")
    section.report_unread()
    return StructuredOutputs(models, {agent: model for agent, model in registry.items() if model in models})


def _read_model(section: Section, name: str, types: OutputTypeReader) -> OutputModel:
    body = types.read_type(section)
    description = section.text("description") or ""
    section.get("name", "NOTE", "schema_version")
    section.report_unread()
    return OutputModel(name, body, description)


def _check_aliases(section: Section, models: Mapping[str, OutputModel]) -> None:
    """Reports aliases that refer to themselves.

    Models may contain themselves, through their fields.
    """
    aliases = {name: set(_iter_aliased(model.body)) for name, model in models.items()}
    sorter = TopologicalSorter(aliases)
    try:
        sorter.prepare()
    except CycleError:
        acyclic: set[str] = set()
        while sorter.is_active():  # sorts everything that does not depend on a cycle
            ready = sorter.get_ready()
            acyclic.update(ready)
            sorter.done(*ready)
        for name in sorted(aliases.keys() - acyclic):
            message = "refers to itself without a model or list between; write a type"
            section.error("endless_type", f"models.{name}", message)


def _iter_aliased(body: OutputType) -> Iterator[str]:
    pending = [body]
    while pending:
        kind = pending.pop()
        if isinstance(kind, ModelRef):
            yield kind.name
        elif isinstance(kind, UnionOf):
            pending.extend(kind.variants)


def _read_registry(
    section: Section, agents: frozenset[str], models: Mapping[str, OutputModel], types: OutputTypeReader
) -> dict[str, str]:
    """Returns the model of each agent.

    Includes invalid ones, which are reported: the author named a model.
    """
    registry: dict[str, str] = {}
    for entry, agent, field in _iter_registrations(section):
        if agent not in agents:
            message = f"{agent[:100]} is not an agent of this package; remove it, or add the agent"
            entry.error("unknown_agent", field if field == agent else "agent", message)
        model = entry.text(field)
        if model is None:
            continue
        if model not in models:
            hint = types.suggest_name(model, frozenset(models)) or "define it under models"
            entry.error("unknown_model", field, f"{model[:100]} is not a model of this file; {hint}")
        if registry.get(agent, model) != model:
            entry.error("duplicate_name", "agent", f"{agent} has two models; keep one")
        registry[agent] = model
    return registry


def _iter_registrations(section: Section) -> Iterator[tuple[Section, str, str]]:
    """Yields the section that names a model, the agent, and the model's field."""
    raw = section.get("registry")
    if not isinstance(raw, list):
        registry = section.child(section.mapping("registry"), "registry")
        agents: Iterable[Any] = registry.body  # YAML keys may be other values than text: `on` is true
        for agent in agents:
            if isinstance(agent, str):
                yield registry, agent, agent
            else:
                registry.error(
                    "wrong_type", "", f"has the key {agent!r}, which is not the name of an agent; write it in quotes"
                )
        return
    for index, body in enumerate(raw):
        entry = section.child(body, f"registry[{index}]")
        if isinstance(body, Mapping):
            agent = entry.required_text("agent")
            entry.get("model", "description", "NOTE")
            entry.report_unread()
            if agent:
                yield entry, agent, "model"
