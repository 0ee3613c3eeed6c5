"""Core configuration: the client of the databases that the operator's file allows, and nothing else of it."""

from collections.abc import Callable
from typing import Any

from workflows.compat.databases import Databases


def make_client_function(databases: Databases) -> Callable[[], Any]:
    """`get_mongo_client` as the tools of one package have it."""

    def get_mongo_client() -> Any:
        """The databases that the operator's file allows under `compat`; DatabaseNotAllowedError for any other."""
        return databases.open_client()

    return get_mongo_client
