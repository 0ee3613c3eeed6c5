"""Structured outputs in normal form: the models that agents answer with, as the package describes them."""

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
    """A model by name: defined before or after, also one that refers back."""

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
    """`body` is an InlineModel for a model, or the type that a model-level alias stands for."""

    name: str
    body: OutputType
    description: str = ""


@dataclass(frozen=True, slots=True)
class StructuredOutputs:
    """`registry` says which agent answers with which model."""

    models: Mapping[str, OutputModel] = field(default_factory=dict)
    registry: Mapping[str, str] = field(default_factory=dict)


def resolve_alias(models: Mapping[str, OutputModel], name: str) -> OutputType:
    """What a name stands for, past other names."""
    body = models[name].body
    while isinstance(body, ModelRef):
        body = models[body.name].body
    return body


def iter_reachable(models: Mapping[str, OutputModel], name: str) -> Iterator[tuple[str, OutputType]]:
    """Every type that the model is made of, with the model in which it stands; each model once."""
    seen = {name}
    waiting: list[tuple[str, OutputType]] = [(name, models[name].body)]
    while waiting:
        owner, kind = waiting.pop()
        yield owner, kind
        if isinstance(kind, ModelRef) and kind.name not in seen:
            seen.add(kind.name)
            waiting.append((kind.name, models[kind.name].body))
        waiting.extend((owner, inner) for inner in iter_parts(kind))


def iter_parts(kind: OutputType) -> Iterator[OutputType]:
    """The types that stand in this one."""
    match kind:
        case ListOf(items):
            yield items
        case UnionOf(variants):
            yield from variants
        case InlineModel(fields):
            yield from (field.type for field in fields.values())


def is_recursive(models: Mapping[str, OutputModel], name: str) -> bool:
    """Whether a model in it holds itself, at whatever depth."""
    refers: dict[str, set[str]] = {name: set()}
    for owner, kind in iter_reachable(models, name):
        if isinstance(kind, ModelRef):
            refers.setdefault(owner, set()).add(kind.name)
    try:
        TopologicalSorter(refers).prepare()
    except CycleError:
        return True
    return False
