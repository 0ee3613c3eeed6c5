"""Completions for the Tab key: names of apps and runs, over a plain client with a short timeout."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pymongo.database import Database


def app_ids(database: Database[dict[str, Any]]) -> Iterator[str]:
    """Yields app names through an index that begins with the app: one step for each."""
    yield from database["runs"].distinct("app_id")


def newest_runs(
    database: Database[dict[str, Any]], query: Mapping[str, Any], fields: Sequence[str], *, limit: int
) -> Iterator[dict[str, Any]]:
    found = database["runs"].find(query, dict.fromkeys(fields, 1))
    yield from found.sort("created_at", -1).limit(limit)
