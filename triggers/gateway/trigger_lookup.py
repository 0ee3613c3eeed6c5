"""Trigger lookup: finds the trigger of an address, and its pause.

Each call asks for a trigger, so records are cached for a second: a burst costs one query, and a pause takes effect
within a second. Missing records are cached too, so that guessed addresses cannot load the store.
"""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from triggers.bounded_cache import BoundedCache
from triggers.gateway.http_problems import store_timeout_problem
from triggers.gateway.trigger_address import TriggerAddress, trigger_not_found
from triggers.occurrence import parse_app_id
from triggers.register.trigger import Trigger, shadowing_spec, trigger_id
from triggers.register.trigger_record import Pause, TriggerRecord
from triggers.register.trigger_store import TriggerStore
from workflows.package.normal_form.package_model import Package
from workflows.package.trigger_specs.form_spec import FormSpec
from workflows.package.trigger_specs.spec_field_types import NAME_PATTERN
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

CACHE_TTL_S = 1.0
MAX_CACHED = 10_000
STORE_TIMEOUT_S = 8.0  # GitHub closes the connection after 10 s

SpecT = TypeVar("SpecT", WebhookSpec, FormSpec)


@dataclass(frozen=True, slots=True)
class TriggerTarget(Generic[SpecT]):
    """A trigger that was found, with the pause that applies to the app of the address."""

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
        max_cached: int = MAX_CACHED,
        store_timeout_s: float = STORE_TIMEOUT_S,
    ) -> None:
        self._packages = packages
        self._store = store
        self._clock = clock
        self._store_timeout_s = store_timeout_s
        self._cache: BoundedCache[tuple[float, TriggerRecord | None]] = BoundedCache(max_cached)
        self._pending_reads: dict[str, asyncio.Task[TriggerRecord | None]] = {}

    async def find(self, spec_type: type[SpecT], address: TriggerAddress) -> TriggerTarget[SpecT]:
        """Raises 404, or 503 when the store does not answer in time.

        A package's trigger goes before one of the same name that was created at run time. A pause raises nothing
        here: only a caller that has proven itself may learn of it.
        """
        found = await self._find(spec_type, address) if _is_usable(address) else None
        if found is None:
            raise trigger_not_found()
        return found

    async def _find(self, spec_type: type[SpecT], address: TriggerAddress) -> TriggerTarget[SpecT] | None:
        packages = self._packages()
        if address.workflow not in packages:
            return None
        spec = shadowing_spec(packages, address.workflow, address.trigger, address.app)
        if spec is not None:
            if not isinstance(spec, spec_type):
                return None
            trigger = Trigger(address.workflow, spec)
            record = await self._read_record(trigger.id)
            return TriggerTarget(trigger, spec, None if record is None else record.pause_of(address.app))
        record = await self._read_record(_runtime_id(address))
        created = None if record is None else record.trigger
        if record is None or created is None or not isinstance(created.spec, spec_type):
            return None
        return TriggerTarget(created, created.spec, record.paused)

    def find_last_known(self, spec_type: type[SpecT], address: TriggerAddress) -> SpecT | None:
        """Returns the spec from package or cache while the store does not answer."""
        spec = shadowing_spec(self._packages(), address.workflow, address.trigger, address.app)
        if spec is None:
            _, record = self._cache.get(_runtime_id(address)) or (0.0, None)
            spec = None if record is None or record.trigger is None else record.trigger.spec
        return spec if isinstance(spec, spec_type) else None

    async def _read_record(self, id_: str) -> TriggerRecord | None:
        now = self._clock()
        read_at, record = self._cache.get(id_) or (float("-inf"), None)
        if now - read_at < CACHE_TTL_S:
            return record
        read = self._pending_reads.get(id_)
        if read is None:
            read = self._pending_reads[id_] = asyncio.create_task(self._fetch_record(id_, now))
            # Retrieves the exception: all callers may have disconnected by then.
            read.add_done_callback(lambda task: task.cancelled() or task.exception())
        try:
            return await asyncio.shield(read)
        except TimeoutError:
            raise store_timeout_problem("find") from None

    async def _fetch_record(self, id_: str, now: float) -> TriggerRecord | None:
        try:
            async with asyncio.timeout(self._store_timeout_s):
                record = await self._store.find(id_)
        finally:
            del self._pending_reads[id_]
        self._cache.put(id_, (now, record))
        return record


def _is_usable(address: TriggerAddress) -> bool:
    """Rejects unusable names before they reach a query, a log or a note."""
    return parse_app_id(address.app) is not None and NAME_PATTERN.fullmatch(address.trigger) is not None


def _runtime_id(address: TriggerAddress) -> str:
    return trigger_id(address.workflow, address.trigger, app_id=address.app)
