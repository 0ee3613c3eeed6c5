"""The watcher: one keeper for each database that a trigger looks at, as packages come and go."""

import asyncio
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from triggers.change_stream.keeper import Keeper
from triggers.change_stream.watches import Declared, Watch, declared_watches
from triggers.service_loop import repeat
from workflows.package.models import Package

log = logging.getLogger(__name__)

LOOK_AT_PACKAGES_S = 2.0

KeeperFor = Callable[[str, Sequence[Watch]], Keeper]


class Watcher:
    def __init__(
        self, keeper_for: KeeperFor, *, packages: Callable[[], Mapping[str, Package]], own_database: str
    ) -> None:
        self._keeper_for = keeper_for
        self._packages = packages
        self._own_database = own_database
        self._declared = Declared({}, {})
        self._keepers: dict[str, Keeper] = {}

    async def run(self, stop: asyncio.Event) -> None:
        """A keeper that fails ends the watcher: better restarted than half blind."""
        async with asyncio.TaskGroup() as tasks:
            try:
                await repeat(partial(self._look, tasks), what="watch", stop=stop)
            finally:
                for keeper in self._keepers.values():
                    keeper.stop()

    async def _look(self, tasks: asyncio.TaskGroup) -> float:
        declared = declared_watches(self._packages(), own_database=self._own_database)
        if declared != self._declared:
            self._report_refused(declared)
            self._declared = declared
            self._follow(declared.by_database, tasks)
        return LOOK_AT_PACKAGES_S

    def _follow(self, wanted: Mapping[str, tuple[Watch, ...]], tasks: asyncio.TaskGroup) -> None:
        for database in self._keepers.keys() - wanted.keys():
            self._keepers.pop(database).stop()
        for database, watches in wanted.items():
            if database in self._keepers:
                self._keepers[database].watches = watches
                continue
            keeper = self._keepers[database] = self._keeper_for(database, watches)
            tasks.create_task(keeper.run(), name=f"stream {database}")

    def _report_refused(self, declared: Declared) -> None:
        for trigger, reason in declared.refused.items():
            if self._declared.refused.get(trigger) != reason:
                log.error("change_trigger_inactive", extra={"trigger": trigger, "reason": reason})
