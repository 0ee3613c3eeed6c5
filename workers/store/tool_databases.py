"""Tool databases: the client for tools, limited to the databases that the operator's file allows.

Each call is checked before it runs: its database, its collection, its method and its content. That guards against
accidents and is not a sandbox, since a tool is Python in this process. A call runs on the loop of the process's client,
whatever loop the tool has.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from bson.codec_options import CodecOptions
from pymongo import AsyncMongoClient
from pymongo.asynchronous.collection import AsyncCollection

from workers.store.tool_client import (
    CHANGES_OF_A_CURSOR,
    KEYWORDS,
    METHODS,
    Access,
    CollectionCall,
    Document,
    Fetch,
    ToolClient,
)
from workers.store.tool_query_checks import check_collection, check_pipeline, check_query, copy_query
from workflows.compat.databases import DatabaseNotAllowedError
from workflows.context.documents.query_templates import is_system_collection

Client = AsyncMongoClient[Document]
T = TypeVar("T")


class ToolDatabases:
    """`connect` returns the process's MongoDB client, which belongs to `loop`."""

    def __init__(
        self,
        allowed: Sequence[str],
        *,
        own_database: str,
        connect: Callable[[], Client],
        loop: asyncio.AbstractEventLoop,
    ) -> None:
        self._allowed = frozenset(allowed)
        self._check = partial(check_database, allowed=self._allowed, own_database=own_database)
        self._connect = connect
        self._loop = loop

    def open_client(self) -> "ToolClient":
        if not self._allowed:
            raise DatabaseNotAllowedError(
                "get_mongo_client gives no database here: the operator's file names none. Write `compat: {databases:"
                " [NAME]}` into ./unattended.yaml, or into the file that UNATTENDED_CONFIG names"
            )
        return ToolClient(self._access())

    def _access(self) -> Access:
        """Returns functions that hold this object without an attribute that leads to it."""

        async def run(call: CollectionCall) -> Any:
            checked = _check_and_copy(call)
            return await self._run_on_loop(lambda: self._run(checked))

        async def open_cursor(call: CollectionCall) -> Fetch:
            checked = _check_and_copy(call)
            fetch = await self._run_on_loop(lambda: self._open(checked))

            async def fetch_on_loop(count: int | None) -> list[Document]:
                return await self._run_on_loop(lambda: fetch(count))

            return fetch_on_loop

        async def list_collections(database: str) -> list[str]:
            return await self._run_on_loop(lambda: self._list_collections(database))

        return Access(self._check, run, open_cursor, list_collections)

    def _collection(self, call: CollectionCall) -> AsyncCollection[Document]:
        self._check(call.database)
        check_collection(call.database, call.collection)
        # Times have no zone, as in the driver by default: tools were written for that.
        database = self._connect().get_database(call.database, codec_options=CodecOptions())
        return database.get_collection(call.collection)

    def _call(self, call: CollectionCall) -> Any:
        return getattr(self._collection(call), call.method)(*call.arguments, **(call.keywords or {}))

    async def _run(self, call: CollectionCall) -> Any:
        return await self._call(call)

    async def _open(self, call: CollectionCall) -> Fetch:
        cursor = self._call(call)
        if call.method == "aggregate":
            cursor = await cursor
        for name, arguments in call.changes:
            getattr(cursor, name)(*arguments)
        fetch: Fetch = cursor.to_list
        return fetch

    async def _list_collections(self, database: str) -> list[str]:
        self._check(database)
        names = await self._connect().get_database(database).list_collection_names()
        return [name for name in names if not is_system_collection(database, name)]

    async def _run_on_loop(self, make: Callable[[], Awaitable[T]]) -> T:
        if asyncio.get_running_loop() is self._loop:
            return await make()
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(_await_made(make), self._loop))


def check_database(name: Any, *, allowed: frozenset[str], own_database: str) -> None:
    """Raises DatabaseNotAllowedError unless the name is in the operator's file."""
    if type(name) is not str:
        raise DatabaseNotAllowedError("the name of a database is a text")
    if name.lower() == own_database.lower() or is_system_collection(name, "") or name not in allowed:
        raise DatabaseNotAllowedError(
            f"the database {name[:64]!r} is not allowed to packages, only {', '.join(sorted(allowed))}: the operator's"
            " file names them under compat.databases"
        )


async def _await_made(make: Callable[[], Awaitable[T]]) -> T:
    return await make()


def _check_and_copy(call: CollectionCall) -> CollectionCall:
    """Checks the call; returns it with copies of its content, which cannot change afterwards.

    The caller's thread makes the copies: many documents would block the loop of the process, and all its runs.
    """
    if call.method not in METHODS:
        raise DatabaseNotAllowedError(f"{call.method} of a collection is not served to packages")
    unserved = next((name for name, _ in call.changes if name not in CHANGES_OF_A_CURSOR), None)
    if unserved is not None:
        raise DatabaseNotAllowedError(f"{unserved} of a cursor is not served to packages")
    arguments, keywords = copy_query(call.arguments), copy_query(call.keywords or {})
    if keywords.get("session", call) is None:  # as helpers in packages pass it on
        del keywords["session"]
    _check_arguments(call, arguments, keywords)
    changes = tuple((name, tuple(copy_query(values))) for name, values in call.changes)
    return replace(call, arguments=tuple(arguments), keywords=keywords, changes=changes)


def _check_arguments(call: CollectionCall, arguments: list[Any], keywords: dict[str, Any]) -> None:
    if len(arguments) > METHODS[call.method]:
        raise DatabaseNotAllowedError(f"{call.method} is given too many arguments; sessions are not served")
    unknown = next((name for name in keywords if name not in KEYWORDS), None)
    if unknown is not None:
        raise DatabaseNotAllowedError(f"{call.method} takes no {unknown} here; leave it out")
    if call.method == "aggregate":
        check_pipeline(keywords.get("pipeline", next(iter(arguments), None)), database=call.database)
    if call.method not in ("insert_one", "insert_many"):  # inserted documents are data
        check_query([arguments, keywords])
