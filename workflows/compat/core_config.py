"""Core configuration: only the client of the allowed databases.

The operator's file lists them.
"""

from collections.abc import Callable
from typing import Any

from workflows.compat.databases import Databases


def make_client_function(databases: Databases) -> Callable[[], Any]:
    """Returns the `get_mongo_client` that the tools of one package import."""

    def get_mongo_client() -> Any:
        """Returns a client for the databases that the operator allows.

        Raises DatabaseNotAllowedError for any other database.
        """
        return databases.open_client()

    return get_mongo_client
