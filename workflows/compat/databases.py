"""Databases that the tools of packages may open.

The operator's file lists them; the default is none.
"""

from typing import Any, Protocol


class DatabaseNotAllowedError(Exception):
    """A package may not open this database.

    The text names the reason and the setting to change.
    """


class Databases(Protocol):
    def open_client(self) -> Any:
        """Returns the client for tools.

        Raises DatabaseNotAllowedError when no database is allowed.
        """


class NoDatabases:
    """Refuses every client, such as in a process that only loads packages."""

    def open_client(self) -> Any:
        raise DatabaseNotAllowedError("get_mongo_client works in a worker and in `unattended run` only")


NO_DATABASES: Databases = NoDatabases()
