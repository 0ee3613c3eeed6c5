"""Completions: names of apps and runs for the Tab key, over a plain client that gives up soon."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pymongo.database import Database


def app_ids(database: Database[dict[str, Any]]) -> Iterator[str]:
    """By an index that begins with the app: one step for each."""
    yield from database["runs"].distinct("app_id")


def newest_runs(
    database: Database[dict[str, Any]], wanted: Mapping[str, Any], fields: Sequence[str], *, limit: int
) -> Iterator[dict[str, Any]]:
    found = database["runs"].find(wanted, dict.fromkeys(fields, 1))
    yield from found.sort("created_at", -1).limit(limit)
