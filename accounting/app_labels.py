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
    named: frozenset[str] = frozenset()

    def label(self, app: str) -> str:
        return app if app in self.named else OTHER


class NamedApps:
    """The store is asked only about an app that is new here, while there is room for one more name."""

    def __init__(self, database: AsyncDatabase[dict[str, Any]], *, most: int) -> None:
        self._lists = database[COLLECTION]
        self._most = most
        self._named: Sequence[str] = ()

    async def learn(self, apps: Sequence[str]) -> AppLabels:
        """Those that come first get a name first, where not all can have one."""
        known = frozenset(self._named)
        unknown = [app for app in dict.fromkeys(apps) if app not in known]
        if unknown and len(self._named) < self._most:
            self._named = (await self._appended([*self._named, *unknown][: self._most]))[: self._most]
        return AppLabels(frozenset(self._named))

    async def _appended(self, apps: Sequence[str]) -> Sequence[str]:
        """Names are never taken out: where the cap was higher, those beyond ours are of no use, and wait."""
        known = {"$ifNull": ["$names", []]}
        new = {"$filter": {"input": {"$literal": list(apps)}, "cond": {"$not": [{"$in": ["$$this", known]}]}}}
        room = {"$max": [self._most, {"$size": known}]}
        names = {"$slice": [{"$concatArrays": [known, new]}, room]}
        document: Any = await self._lists.find_one_and_update(  # there is one after an upsert
            {"_id": _APPS}, [{"$set": {"names": names}}], upsert=True, return_document=ReturnDocument.AFTER
        )
        return tuple(document["names"])
