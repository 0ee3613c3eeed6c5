"""Documents a context reads and writes: what is asked of the database, by whom, for which tenant."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any


class ReadRefusedError(Exception):
    """The database refused this read, and would refuse it again; the text says why."""


class WriteRefusedError(Exception):
    """This write is not allowed, or the database refused it and would again; the text names variable and place."""


class WriteTooSlowError(Exception):
    """The database did not get this write done in time. Another attempt may find it faster; the text names variable
    and place."""


@dataclass(frozen=True, slots=True)
class DocumentRead:
    """The newest document that matches `query` and does not belong to another app, projected to `fields`."""

    app_id: str
    database: str
    collection: str
    query: Mapping[str, Any]
    fields: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class DocumentWrite:
    """Sets `values` in this app's document whose `key` field is `key_value`; inserts it when there is none."""

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
    """Where a variable is to be written: the document of this app whose `key` field is `key_value`."""

    variable: str
    app_id: str
    database: str
    collection: str
    key: str
    key_value: str | int | float | bool


CheckWritable = Callable[[DocumentTarget], Awaitable[None]]
"""WriteRefusedError when a write there would be refused, or would make a second document beside the one meant."""

ReadDocument = Callable[[DocumentRead], Awaitable[Mapping[str, Any] | None]]
