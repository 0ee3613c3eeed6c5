"""Structured outputs in normal form: the models that agents answer with, as the package describes them."""

from collections.abc import Mapping
from dataclasses import dataclass, field
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
