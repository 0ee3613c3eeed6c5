"""App labels: a metric shows at most so many apps by name, and the rest as one. Which ones stands in the store, in the
order in which they were first seen, so that an app has the same label in every exporter and after every restart."""

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
    """The store is asked only about an app that is new here, while there is room for one more name."""

    def __init__(self, database: AsyncDatabase[dict[str, Any]], *, max_apps: int) -> None:
        self._labels = database[COLLECTION]
        self._max_apps = max_apps
        self._known_apps: Sequence[str] = ()

    async def register(self, apps: Sequence[str]) -> AppLabels:
        """Those that come first get a name first, where not all can have one."""
        known = frozenset(self._known_apps)
        unknown = [app for app in dict.fromkeys(apps) if app not in known]
        if unknown and len(self._known_apps) < self._max_apps:
            self._known_apps = (await self._append([*self._known_apps, *unknown][: self._max_apps]))[: self._max_apps]
        return AppLabels(frozenset(self._known_apps))

    async def _append(self, apps: Sequence[str]) -> Sequence[str]:
        """Names are never taken out: where the cap was higher, those beyond ours are of no use, and wait."""
        known = {"$ifNull": ["$names", []]}
        new = {"$filter": {"input": {"$literal": list(apps)}, "cond": {"$not": [{"$in": ["$$this", known]}]}}}
        room = {"$max": [self._max_apps, {"$size": known}]}
        names = {"$slice": [{"$concatArrays": [known, new]}, room]}
        document: Any = await self._labels.find_one_and_update(  # there is one after an upsert
            {"_id": _APPS}, [{"$set": {"names": names}}], upsert=True, return_document=ReturnDocument.AFTER
        )
        return tuple(document["names"])
