"""App labels: metrics name a limited number of apps and show all others as one.

The store keeps the names in the order in which apps were first seen, so an app has the same label in every exporter and
after every restart.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pymongo import ReturnDocument
from pymongo.asynchronous.database import AsyncDatabase

COLLECTION = "metric_labels"
OTHER = "_other"
_APPS = "apps"


@dataclass(frozen=True, slots=True)
class AppLabels:
    known_apps: frozenset[str] = frozenset()

    def label(self, app: str) -> str:
        return app if app in self.known_apps else OTHER


class AppLabelStore:
    """Registers apps by name.

    Reads the store only for a new app while there is room for another name.
    """

    def __init__(self, database: AsyncDatabase[dict[str, Any]], *, max_apps: int) -> None:
        self._labels = database[COLLECTION]
        self._max_apps = max_apps
        self._known_apps: Sequence[str] = ()

    async def register(self, apps: Sequence[str]) -> AppLabels:
        """Adds new apps, first come first served, and returns the labels."""
        known = frozenset(self._known_apps)
        unknown = [app for app in dict.fromkeys(apps) if app not in known]
        if unknown and len(self._known_apps) < self._max_apps:
            self._known_apps = (await self._append([*self._known_apps, *unknown][: self._max_apps]))[: self._max_apps]
        return AppLabels(frozenset(self._known_apps))

    async def _append(self, apps: Sequence[str]) -> Sequence[str]:
        """Appends new names up to the cap and returns all stored names.

        Names are never removed: after the cap was lowered, the store holds more names than this process uses.
        """
        known = {"$ifNull": ["$names", []]}
        new = {"$filter": {"input": {"$literal": list(apps)}, "cond": {"$not": [{"$in": ["$$this", known]}]}}}
        room = {"$max": [self._max_apps, {"$size": known}]}
        names = {"$slice": [{"$concatArrays": [known, new]}, room]}
        document: Any = await self._labels.find_one_and_update(  # there is one after an upsert
            {"_id": _APPS}, [{"$set": {"names": names}}], upsert=True, return_document=ReturnDocument.AFTER
        )
        return tuple(document["names"])
