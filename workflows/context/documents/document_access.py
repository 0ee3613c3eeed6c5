"""Document access: the reads and writes of a context, each for one tenant."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any


class ReadRefusedError(Exception):
    """The database refused a read permanently; the text gives the reason."""


class WriteRefusedError(Exception):
    """A write is not allowed or was refused permanently.

    The text names the variable and the place."""


class WriteTooSlowError(Exception):
    """A write timed out, and another attempt may succeed.

    The text names the variable and the place."""


@dataclass(frozen=True, slots=True)
class DocumentRead:
    """A read of the newest document that matches and belongs to no other app.

    The document is projected to `fields`."""

    app_id: str
    database: str
    collection: str
    query: Mapping[str, Any]
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DocumentWrite:
    """Sets `values` in this app's document by `key`, or inserts the document."""

    variable: str
    app_id: str
    database: str
    collection: str
    key: str
    key_value: str | int | float | bool
    values: Mapping[str, Any]

    def refused_error(self, reason: str) -> WriteRefusedError:
        return WriteRefusedError(self._describe_failure(reason))

    def too_slow_error(self, reason: str) -> WriteTooSlowError:
        return WriteTooSlowError(self._describe_failure(reason))

    def _describe_failure(self, reason: str) -> str:
        return f"{self.variable} is not written to {self.database}.{self.collection}: {reason}"


@dataclass(frozen=True, slots=True)
class DocumentTarget:
    """The document that a variable is written to, by `key` and app."""

    variable: str
    app_id: str
    database: str
    collection: str
    key: str
    key_value: str | int | float | bool


CheckWritable = Callable[[DocumentTarget], Awaitable[None]]
"""Raises WriteRefusedError if a write would be refused or would make a second document."""

ReadDocument = Callable[[DocumentRead], Awaitable[Mapping[str, Any] | None]]
