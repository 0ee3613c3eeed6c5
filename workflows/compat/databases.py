"""Databases of tools: what `get_mongo_client` gives is the operator's decision, and none without one."""

from typing import Any, Protocol


class DatabaseNotAllowedError(Exception):
    """Access to MongoDB that packages are not given; the text names the reason, and what the operator may change."""


class Databases(Protocol):
    def open_client(self) -> Any:
        """The client that the tools of a package are given. DatabaseNotAllowedError when no database is allowed."""


class NoDatabases:
    """Where no process gives any, such as where a package is only loaded."""

    def open_client(self) -> Any:
        raise DatabaseNotAllowedError("get_mongo_client works in a worker and in `unattended run` only")


NO_DATABASES: Databases = NoDatabases()
