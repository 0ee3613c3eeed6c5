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

from triggers.register.trigger import Trigger, shadowing_spec, trigger_id
from triggers.register.trigger_record import Pause, TriggerRecord
from triggers.register.trigger_store import TriggerStore
from workflows.package.normal_form.package_model import Package
from workflows.package.trigger_specs.form_spec import FormSpec
from workflows.package.trigger_specs.spec_values import NAME_PATTERN
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

CACHE_TTL_S = 1.0
MAX_CACHED = 10_000
STORE_TIMEOUT_S = 8.0  # GitHub hangs up after 10

SpecT = TypeVar("SpecT", WebhookSpec, FormSpec)


@dataclass(frozen=True, slots=True)
class TriggerTarget(Generic[SpecT]):
    trigger: Trigger
    spec: SpecT
    pause: Pause | None


class TriggerLookup:
    def __init__(
        self,
        packages: Callable[[], Mapping[str, Package]],
        store: TriggerStore,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._packages = packages
        self._store = store
        self._clock = clock
        self._cache: OrderedDict[str, tuple[float, TriggerRecord | None]] = OrderedDict()
        self._pending_reads: dict[str, asyncio.Task[TriggerRecord | None]] = {}

    async def find(
        self, spec_type: type[SpecT], *, app_id: str, workflow: str, name: str
    ) -> TriggerTarget[SpecT] | None:
        """A package's trigger goes before one of the same name that was made at run time. Raises TimeoutError when the
        store does not answer."""
        packages = self._packages()
        if workflow not in packages or not NAME_PATTERN.fullmatch(name):  # nor is there room for names without end
            return None
        spec = shadowing_spec(packages, workflow, name, app_id)
        if spec is not None:
            if not isinstance(spec, spec_type):
                return None
            trigger = Trigger(workflow, spec)
            record = await self._read_record(trigger.id)
            return TriggerTarget(trigger, spec, None if record is None else record.pause_of(app_id))
        record = await self._read_record(trigger_id(workflow, name, app_id=app_id))
        made = None if record is None else record.trigger
        if record is None or made is None or not isinstance(made.spec, spec_type):
            return None
        return TriggerTarget(made, made.spec, record.paused)

    def find_last_known(self, spec_type: type[SpecT], *, app_id: str, workflow: str, name: str) -> SpecT | None:
        """While the store does not answer: what a package says, or the store last said."""
        spec = shadowing_spec(self._packages(), workflow, name, app_id)
        if spec is None:
            _, record = self._cache.get(trigger_id(workflow, name, app_id=app_id), (0.0, None))
            spec = None if record is None or record.trigger is None else record.trigger.spec
        return spec if isinstance(spec, spec_type) else None

    async def _read_record(self, id_: str) -> TriggerRecord | None:
        now = self._clock()
        read_at, record = self._cache.get(id_, (float("-inf"), None))
        if now - read_at < CACHE_TTL_S:
            return record
        asking = self._pending_reads.get(id_)
        if asking is None:
            asking = self._pending_reads[id_] = asyncio.create_task(self._fetch_record(id_, now))
            asking.add_done_callback(lambda done: done.cancelled() or done.exception())  # whoever asked may be gone
        return await asyncio.shield(asking)

    async def _fetch_record(self, id_: str, now: float) -> TriggerRecord | None:
        try:
            async with asyncio.timeout(STORE_TIMEOUT_S):
                record = await self._store.find(id_)
        finally:
            del self._pending_reads[id_]
        self._cache[id_] = now, record
        self._cache.move_to_end(id_)
        while len(self._cache) > MAX_CACHED:
            self._cache.popitem(last=False)
        return record
