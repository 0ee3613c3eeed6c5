"""The normal form of structured outputs: the models of agents' replies."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

ScalarName = Literal["str", "int", "bool", "float", "dict", "any"]


@dataclass(frozen=True, slots=True)
class Scalar:
    name: ScalarName


@dataclass(frozen=True, slots=True)
class Null:
    """The `null` of a union."""


@dataclass(frozen=True, slots=True)
class LiteralOf:
    values: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class ListOf:
    items: "OutputType"


@dataclass(frozen=True, slots=True)
class UnionOf:
    variants: tuple["OutputType", ...]


@dataclass(frozen=True, slots=True)
class ModelRef:
    """A reference to a model by name, defined before or after; may be recursive."""

    name: str


@dataclass(frozen=True, slots=True)
class OutputField:
    type: "OutputType"
    description: str = ""
    required: bool = True
    default: Any = None


@dataclass(frozen=True, slots=True)
class InlineModel:
    fields: Mapping[str, OutputField]


OutputType = Scalar | Null | LiteralOf | ListOf | UnionOf | ModelRef | InlineModel


@dataclass(frozen=True, slots=True)
class OutputModel:
    """A named model. `body` is an InlineModel, or the type that an alias stands for."""

    name: str
    body: OutputType
    description: str = ""


@dataclass(frozen=True, slots=True)
class StructuredOutputs:
    """All models of a package. `registry`: the model of each agent's replies."""

    models: Mapping[str, OutputModel] = field(default_factory=dict)
    registry: Mapping[str, str] = field(default_factory=dict)


def resolve_alias(models: Mapping[str, OutputModel], name: str) -> OutputType:
    """Follows aliases to the type that a name stands for."""
    body = models[name].body
    while isinstance(body, ModelRef):
        body = models[body.name].body
    return body


def iter_reachable(models: Mapping[str, OutputModel], name: str) -> Iterator[tuple[str, OutputType]]:
    """Yields every type inside a model, with the model that contains it.

    Visits each model once.
    """
    seen = {name}
    pending: list[tuple[str, OutputType]] = [(name, models[name].body)]
    while pending:
        owner, kind = pending.pop()
        yield owner, kind
        if isinstance(kind, ModelRef) and kind.name not in seen:
            seen.add(kind.name)
            pending.append((kind.name, models[kind.name].body))
        pending.extend((owner, inner) for inner in iter_parts(kind))


def iter_parts(kind: OutputType) -> Iterator[OutputType]:
    """Yields the types directly inside this one."""
    match kind:
        case ListOf(items):
            yield items
        case UnionOf(variants):
            yield from variants
        case InlineModel(fields):
            yield from (field.type for field in fields.values())


def is_recursive(models: Mapping[str, OutputModel], name: str) -> bool:
    """Returns whether a model inside it contains itself, at any depth."""
    references: dict[str, set[str]] = {name: set()}
    for owner, kind in iter_reachable(models, name):
        if isinstance(kind, ModelRef):
            references.setdefault(owner, set()).add(kind.name)
    try:
        TopologicalSorter(references).prepare()
    except CycleError:
        return True
    return False
