"""Reads structured outputs: models in the package's own type grammar, and which agent answers with which."""

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
    """`required` are the agents that say that they answer with a model."""
    written = dict(read_named_entries(section, "models"))
    types = OutputTypeReader(frozenset(written))
    models = {name: _read_model(one, name, types) for name, one in written.items()}
    _check_aliases(section, models)
    registry = _read_registry(section, agents, models, types)
    for agent in sorted(required - registry.keys()):
        message = f"names no model for {agent}, which has structured_outputs_required: true; add {agent}: <model>"
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
    """A model may contain itself, since its fields stand between; an alias of itself says nothing."""
    aliases = {name: set(_iter_aliased(model.body)) for name, model in models.items()}
    sorter = TopologicalSorter(aliases)
    try:
        sorter.prepare()
    except CycleError:
        defined: set[str] = set()
        while sorter.is_active():  # what does not depend on a circle can still be sorted
            ready = sorter.get_ready()
            defined.update(ready)
            sorter.done(*ready)
        for name in sorted(aliases.keys() - defined):
            message = "refers to itself, with no model or list between; say what it stands for"
            section.error("endless_type", f"models.{name}", message)


def _iter_aliased(body: OutputType) -> Iterator[str]:
    waiting = [body]
    while waiting:
        kind = waiting.pop()
        if isinstance(kind, ModelRef):
            yield kind.name
        elif isinstance(kind, UnionOf):
            waiting.extend(kind.variants)


def _read_registry(
    section: Section, agents: frozenset[str], models: Mapping[str, OutputModel], types: OutputTypeReader
) -> dict[str, str]:
    """Also what is wrong, after saying so: the author did name a model."""
    registry: dict[str, str] = {}
    for one, agent, field in _iter_registrations(section):
        if agent not in agents:
            message = f"{agent[:100]} is not an agent of this package; remove it, or add the agent"
            one.error("unknown_agent", field if field == agent else "agent", message)
        model = one.text(field)
        if model is None:
            continue
        if model not in models:
            hint = types.suggest_name(model, frozenset(models)) or "define it under models"
            one.error("unknown_model", field, f"{model[:100]} is not a model of this file; {hint}")
        if registry.get(agent, model) != model:
            one.error("duplicate_name", "agent", f"{agent} is given two models; keep one")
        registry[agent] = model
    return registry


def _iter_registrations(section: Section) -> Iterator[tuple[Section, str, str]]:
    """The section that names the model, the agent, and the field in which the model stands."""
    raw = section.get("registry")
    if not isinstance(raw, list):
        registry = section.child(section.mapping("registry"), "registry")
        agents: Iterable[Any] = registry.body  # YAML has keys that are no text: `on` is true
        for agent in agents:
            if isinstance(agent, str):
                yield registry, agent, agent
            else:
                registry.error("wrong_type", "", f"has the key {agent!r}, where the name of an agent is needed")
        return
    for index, entry in enumerate(raw):
        one = section.child(entry, f"registry[{index}]")
        if isinstance(entry, Mapping):
            agent = one.required_text("agent")
            one.get("model", "description", "NOTE")
            one.report_unread()
            if agent:
                yield one, agent, "model"
