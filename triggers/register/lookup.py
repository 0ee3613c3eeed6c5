"""The lookup: the trigger that an address names, from a package or made at run time, and whether it is paused.

Every call asks, so what the store says is remembered for a second: a burst costs one question, and a pause takes a
second to be felt. What is not there is remembered too, or strangers could make the store busy with guesses.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from triggers.register.precedence import in_front_of
from triggers.register.record import Pause, Record
from triggers.register.store import TriggerStore
from triggers.register.trigger import Trigger, trigger_id
from workflows.package.models import Package
from workflows.package.trigger_specs.form import FormSpec
from workflows.package.trigger_specs.values import NAME
from workflows.package.trigger_specs.webhook import WebhookSpec

REMEMBERED_S = 1.0
MOST_REMEMBERED = 10_000
PATIENCE_S = 8.0  # GitHub hangs up after 10

Called = TypeVar("Called", WebhookSpec, FormSpec)


@dataclass(frozen=True, slots=True)
class Found(Generic[Called]):
    trigger: Trigger
    spec: Called
    pause: Pause | None


class Lookup:
    def __init__(
        self,
        packages: Callable[[], Mapping[str, Package]],
        store: TriggerStore,
        *,
        clock: Callable[[], float] = time.monotonic,
        most_remembered: int = MOST_REMEMBERED,
    ) -> None:
        self._most_remembered = most_remembered
        self._packages = packages
        self._store = store
        self._clock = clock
        self._remembered: OrderedDict[str, tuple[float, Record | None]] = OrderedDict()
        self._asking: dict[str, asyncio.Task[Record | None]] = {}

    async def find(self, kind: type[Called], *, app_id: str, workflow: str, name: str) -> Found[Called] | None:
        """A package's trigger goes before one of the same name that was made at run time. Raises TimeoutError when the
        store does not answer."""
        packages = self._packages()
        if workflow not in packages or not NAME.fullmatch(name):  # nor is there room for names without end
            return None
        spec = in_front_of(packages, workflow, name, app_id)
        if spec is not None:
            if not isinstance(spec, kind):
                return None
            trigger = Trigger(workflow, spec)
            record = await self._record(trigger.id)
            return Found(trigger, spec, None if record is None else record.pause_of(app_id))
        record = await self._record(trigger_id(workflow, name, app_id=app_id))
        made = None if record is None else record.trigger
        if record is None or made is None or not isinstance(made.spec, kind):
            return None
        return Found(made, made.spec, record.paused)

    def last_known(self, kind: type[Called], *, app_id: str, workflow: str, name: str) -> Called | None:
        """While the store does not answer: what a package says, or the store last said."""
        spec = in_front_of(self._packages(), workflow, name, app_id)
        if spec is None:
            _, record = self._remembered.get(trigger_id(workflow, name, app_id=app_id), (0.0, None))
            spec = None if record is None or record.trigger is None else record.trigger.spec
        return spec if isinstance(spec, kind) else None

    async def _record(self, id_: str) -> Record | None:
        now = self._clock()
        read_at, record = self._remembered.get(id_, (float("-inf"), None))
        if now - read_at < REMEMBERED_S:
            return record
        asking = self._asking.get(id_)
        if asking is None:
            asking = self._asking[id_] = asyncio.create_task(self._ask(id_, now))
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever asked may be gone
        return await asyncio.shield(asking)

    async def _ask(self, id_: str, now: float) -> Record | None:
        try:
            async with asyncio.timeout(PATIENCE_S):
                record = await self._store.find(id_)
        finally:
            del self._asking[id_]
        self._remembered[id_] = now, record
        self._remembered.move_to_end(id_)
        while len(self._remembered) > self._most_remembered:
            self._remembered.popitem(last=False)
        return record
