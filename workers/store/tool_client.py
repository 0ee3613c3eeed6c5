"""The tool client: the replacement for the driver's client, databases, collections and cursors in tools.

It holds names and functions, never the driver's objects, so that no attribute leads to another database.
"""

from collections.abc import Awaitable, Callable, Generator, Mapping, MutableMapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from bson import ObjectId
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection
from pymongo.asynchronous.database import AsyncDatabase
from pymongo.errors import InvalidOperation

from workers.store.tool_query_checks import check_collection
from workflows.compat.databases import DatabaseNotAllowedError

Document = dict[str, Any]
T = TypeVar("T")

BATCH = 100  # documents that an iteration reads from the driver at once

# The maximum of positional arguments of each method; further ones would include a session.
READS = {"find": 4, "find_one": 4, "aggregate": 1, "distinct": 2, "count_documents": 1, "estimated_document_count": 0}
WRITES = {
    "insert_one": 1,
    "insert_many": 2,
    "update_one": 3,
    "update_many": 3,
    "replace_one": 3,
    "delete_one": 1,
    "delete_many": 1,
    "find_one_and_update": 4,
    "find_one_and_replace": 4,
    "find_one_and_delete": 3,
}
INDEXES = {"create_index": 1, "drop_index": 1, "index_information": 0}
METHODS: Mapping[str, int] = {**READS, **WRITES, **INDEXES}
CURSORS = ("find", "aggregate")
CHANGES_OF_A_CURSOR = frozenset(
    {"allow_disk_use", "batch_size", "collation", "hint", "limit", "max_time_ms", "skip", "sort"}
)
# Other keywords would go into the command that is sent, where they could mean anything.
KEYWORDS = CHANGES_OF_A_CURSOR | {
    "allowDiskUse",
    "array_filters",
    "arrayFilters",
    "background",
    "default_language",
    "document",
    "documents",
    "expireAfterSeconds",
    "filter",
    "key",
    "keys",
    "let",
    "maxTimeMS",
    "name",
    "ordered",
    "partialFilterExpression",
    "pipeline",
    "projection",
    "replacement",
    "return_document",
    "sparse",
    "unique",
    "update",
    "upsert",
    "weights",
}


@dataclass(frozen=True, slots=True)
class CollectionCall:
    """A method call on a collection. `changes` are applied to the cursor that it returns."""

    database: str
    collection: str
    method: str
    arguments: tuple[Any, ...] = ()
    keywords: Mapping[str, Any] | None = None
    changes: tuple[tuple[str, tuple[Any, ...]], ...] = ()


Fetch = Callable[[int | None], Awaitable[list[Document]]]


@dataclass(frozen=True, slots=True)
class Access:
    """The operations of the client. None of them leads to the driver."""

    check: Callable[[Any], None]
    run: Callable[[CollectionCall], Awaitable[Any]]
    open: Callable[[CollectionCall], Awaitable[Fetch]]
    list_collections: Callable[[str], Awaitable[list[str]]]


class UnservedError(DatabaseNotAllowedError, AttributeError):
    """A driver attribute that packages do not get. An AttributeError, so that `hasattr` is false."""


class ToolClient:
    """The result of `get_mongo_client`: `client["shop"]`, `client.shop`, `client.get_database("shop")`."""

    __slots__ = ("_access",)

    def __init__(self, access: Access) -> None:
        self._access = access

    def __getitem__(self, name: str | None) -> "ToolDatabase":
        self._access.check(name)
        return ToolDatabase(self._access, str(name))

    def __getattr__(self, name: str) -> "ToolDatabase":
        _check_attribute(AsyncMongoClient, name)
        try:
            return self[name]
        except DatabaseNotAllowedError as error:
            raise UnservedError(str(error)) from None

    def get_database(self, name: str | None = None) -> "ToolDatabase":
        return self[name]


class ToolDatabase:
    """An allowed database: its collections by index or attribute, and their names."""

    __slots__ = ("_access", "_name")

    def __init__(self, access: Access, name: str) -> None:
        self._access = access
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def client(self) -> ToolClient:
        return ToolClient(self._access)

    def __getitem__(self, name: str) -> "PackageCollection":
        check_collection(self._name, name)
        return PackageCollection(self._access, self._name, name)

    def __getattr__(self, name: str) -> "PackageCollection":
        _check_attribute(AsyncDatabase, name)
        return self[name]

    def get_collection(self, name: str) -> "PackageCollection":
        return self[name]

    async def list_collection_names(self) -> list[str]:
        return await _drop_traceback(self._access.list_collections(self._name))


class PackageCollection:
    """A collection with the methods of METHODS.

    `collection.archive` is the collection with that longer name.
    """

    __slots__ = ("_access", "_database", "_name")

    def __init__(self, access: Access, database: str, name: str) -> None:
        self._access = access
        self._database = database
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    @property
    def full_name(self) -> str:
        return f"{self._database}.{self._name}"

    @property
    def database(self) -> ToolDatabase:
        return ToolDatabase(self._access, self._database)

    def __getitem__(self, name: str) -> "PackageCollection":
        return self.database[f"{self._name}.{name}"]

    def __getattr__(self, name: str) -> Any:
        if name in CURSORS:
            return lambda *arguments, **keywords: PackageCursor(self._access, self._call(name, arguments, keywords))
        if name in METHODS:
            return lambda *arguments, **keywords: self._run(self._call(name, arguments, keywords))
        _check_attribute(AsyncCollection, name)
        return self[name]

    def _call(self, method: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> CollectionCall:
        _add_ids(method, arguments, keywords)
        return CollectionCall(self._database, self._name, method, arguments, keywords)

    async def _run(self, call: CollectionCall) -> Any:
        return await _drop_traceback(self._access.run(call))


class PackageCursor:
    """The documents of a `find` or an `aggregate`.

    The command is sent when the cursor is awaited or its first document is read.
    """

    __slots__ = ("_access", "_buffer", "_call", "_fetch")

    def __init__(self, access: Access, call: CollectionCall) -> None:
        self._access = access
        self._call = call
        self._fetch: Fetch | None = None
        self._buffer: list[Document] = []

    def __getattr__(self, name: str) -> Callable[..., "PackageCursor"]:
        if name not in CHANGES_OF_A_CURSOR:
            raise UnservedError(f"{name} of a cursor is not served to packages")

        def change(*arguments: Any) -> PackageCursor:
            if self._fetch is not None:
                raise InvalidOperation(f"{name} of a cursor that was read from already")
            self._call = replace(self._call, changes=(*self._call.changes, (name, arguments)))
            return self

        return change

    def __await__(self) -> Generator[Any, None, "PackageCursor"]:
        """Sends the command: one driver has `await collection.aggregate(…)`, the other returns a cursor."""
        return self._send().__await__()

    async def _send(self) -> "PackageCursor":
        if self._fetch is None:
            self._fetch = await _drop_traceback(self._access.open(self._call))
        return self

    async def to_list(self, length: int | None = None) -> list[Document]:
        found = self._buffer if length is None else self._buffer[:length]
        self._buffer = self._buffer[len(found) :]
        wanted = None if length is None else length - len(found)
        return found + (await self._read(wanted) if wanted is None or wanted > 0 else [])

    def __aiter__(self) -> "PackageCursor":
        return self

    async def __anext__(self) -> Document:
        if not self._buffer:
            self._buffer = await self._read(BATCH)
        if not self._buffer:
            raise StopAsyncIteration
        return self._buffer.pop(0)

    async def next(self) -> Document:
        return await anext(self)

    async def close(self) -> None:
        """Stops reading."""
        self._buffer = []
        self._fetch = _fetch_nothing

    async def _read(self, count: int | None) -> list[Document]:
        await self._send()
        fetch = self._fetch or _fetch_nothing
        return await _drop_traceback(fetch(count))


async def _fetch_nothing(count: int | None) -> list[Document]:
    del count
    return []


async def _drop_traceback(work: Awaitable[T]) -> T:
    """Removes the frames of the driver from its errors: they hold the driver's objects."""
    try:
        return await work
    except Exception as error:  # noqa: BLE001 -- whatever it is, the tool handles it
        raised = error.with_traceback(None)
    raised.__cause__ = raised.__context__ = None
    raise raised


def _add_ids(method: str, arguments: tuple[Any, ...], keywords: Mapping[str, Any]) -> None:
    """Adds missing `_id` fields to the documents to insert, as the driver does.

    Tools read them there.
    """
    if method not in ("insert_one", "insert_many"):
        return
    documents = arguments[0] if arguments else keywords.get("document", keywords.get("documents"))
    for document in [documents] if method == "insert_one" else documents if isinstance(documents, list | tuple) else []:
        if isinstance(document, MutableMapping):
            document.setdefault("_id", ObjectId())


def _check_attribute(owner: type[Any], name: str) -> None:
    if name.startswith("_"):
        raise AttributeError(name)
    if hasattr(owner, name):
        raise UnservedError(f"{name} is not served to packages: it would lead beyond the databases they are allowed")
