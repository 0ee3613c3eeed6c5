"""Trigger lookup: the trigger of an address, with one query a second."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from pymongo.errors import AutoReconnect

from tests.trigger_packages import package_with_triggers
from triggers.gateway.http_problems import ProblemError
from triggers.gateway.trigger_address import TriggerAddress
from triggers.gateway.trigger_lookup import TriggerLookup
from triggers.register.trigger_record import Pause, TriggerRecord
from triggers.register.trigger_store import TriggerStore
from workflows.package.trigger_specs.form_spec import FormSpec
from workflows.package.trigger_specs.run_finished_spec import RunFinishedSpec
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec
from workflows.package.trigger_specs.trigger_spec import TriggerSpec
from workflows.package.trigger_specs.webhook_spec import Verification, WebhookSpec

VERIFY = Verification(scheme="github", secret=("env:S",))
PAUSE = Pause(datetime(2026, 3, 29, tzinfo=UTC), "ada")


class FakeTriggerStore(TriggerStore):
    """Records in memory. Queries are counted."""

    def __init__(self, records: Sequence[TriggerRecord] = ()) -> None:
        self.records_by_id = {each.id: each for each in records}
        self.queries: list[str] = []

    async def find(self, id_: str) -> TriggerRecord | None:
        self.queries.append(id_)
        return self.records_by_id.get(id_)


class FakeClock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def hook(name: str = "paid", *apps: str, app_id: str | None = None) -> WebhookSpec:
    return WebhookSpec(name=name, verify=VERIFY, apps=apps, app_id=app_id)


def created_record(spec: TriggerSpec | None, *, app_id: str, paused: Pause | None = None) -> TriggerRecord:
    name = "paid" if spec is None else spec.name
    return TriggerRecord(
        f"Digest/{name}@{app_id}", "Digest", name, app_id, spec, 1, paused, {}, {}, (), None, document={}
    )


def state(id_: str, *, paused: Pause | None = None, **paused_apps: Pause) -> TriggerRecord:
    return TriggerRecord(id_, "Digest", "paid", None, None, 0, paused, paused_apps, {}, (), None, document={})


async def find_trigger(lookup: TriggerLookup, app_id: str, name: str = "paid") -> tuple[str, Pause | None] | None:
    try:
        target = await lookup.find(WebhookSpec, TriggerAddress(app_id, "Digest", name))
    except ProblemError as problem:
        if problem.status != 404:
            raise
        return None
    return target.trigger.id, target.pause


async def test_a_packages_trigger_is_found_for_its_apps_alone() -> None:
    lookup = TriggerLookup(lambda: package_with_triggers(hook("paid", "acme")), FakeTriggerStore())

    assert await find_trigger(lookup, "acme") == ("Digest/paid", None)
    assert await find_trigger(lookup, "globex") is None
    assert await find_trigger(lookup, "acme", "unpaid") is None


async def test_what_an_expression_names_is_known_with_the_event() -> None:
    lookup = TriggerLookup(lambda: package_with_triggers(hook("paid", app_id="=tenant")), FakeTriggerStore())

    assert await find_trigger(lookup, "anybody") == ("Digest/paid", None)


async def test_one_made_at_run_time_is_found_for_its_app_alone() -> None:
    lookup = TriggerLookup(
        package_with_triggers, FakeTriggerStore([created_record(hook(), app_id="acme", paused=PAUSE)])
    )

    assert await find_trigger(lookup, "acme") == ("Digest/paid@acme", PAUSE)
    assert await find_trigger(lookup, "globex") is None


async def test_a_packages_trigger_goes_before_one_made_at_run_time() -> None:
    lookup = TriggerLookup(
        lambda: package_with_triggers(hook("paid", "acme")), FakeTriggerStore([created_record(hook(), app_id="acme")])
    )

    assert await find_trigger(lookup, "acme") == ("Digest/paid", None)


async def test_another_kind_under_the_name_is_not_the_one_that_was_asked_for() -> None:
    form = FormSpec(name="paid", apps=("acme",), inputs={"a": {}})  # type: ignore[dict-item]  # as authors write it
    lookup = TriggerLookup(
        lambda: package_with_triggers(form), FakeTriggerStore([created_record(hook(), app_id="acme")])
    )

    assert await find_trigger(lookup, "acme") is None


async def test_a_trigger_of_a_workflow_that_is_gone_is_not_found() -> None:
    lookup = TriggerLookup(dict, FakeTriggerStore([created_record(hook(), app_id="acme")]))

    assert await find_trigger(lookup, "acme") is None


async def test_a_pause_is_that_of_the_app() -> None:
    lookup = TriggerLookup(
        lambda: package_with_triggers(hook("paid", "acme", "globex")),
        FakeTriggerStore([state("Digest/paid", acme=PAUSE)]),
    )

    assert await find_trigger(lookup, "acme") == ("Digest/paid", PAUSE)
    assert await find_trigger(lookup, "globex") == ("Digest/paid", None)


async def test_a_burst_asks_once_and_a_second_later_again() -> None:
    clock, store = FakeClock(), FakeTriggerStore()
    lookup = TriggerLookup(package_with_triggers, store, clock=clock)

    for _ in range(50):
        assert await find_trigger(lookup, "acme") is None
    assert store.queries == ["Digest/paid@acme"]

    store.records_by_id["Digest/paid@acme"] = created_record(hook(), app_id="acme")
    clock.now += 1.0
    assert await find_trigger(lookup, "acme") == ("Digest/paid@acme", None)


class SlowTriggerStore(FakeTriggerStore):
    """Answers when the test allows it."""

    def __init__(self) -> None:
        super().__init__([created_record(hook(), app_id="acme")])
        self.answer = asyncio.Event()
        self.failure: Exception | None = None

    async def find(self, id_: str) -> TriggerRecord | None:
        record = await super().find(id_)
        await self.answer.wait()
        if self.failure is not None:
            raise self.failure
        return record


async def test_concurrent_lookups_share_one_query_whichever_caller_leaves() -> None:
    store = SlowTriggerStore()
    lookup = TriggerLookup(package_with_triggers, store)
    callers = [asyncio.create_task(find_trigger(lookup, "acme")) for _ in range(20)]
    await asyncio.sleep(0)

    callers[0].cancel()
    await asyncio.sleep(0)
    store.answer.set()

    assert set(await asyncio.gather(*callers[1:])) == {("Digest/paid@acme", None)}
    assert store.queries == ["Digest/paid@acme"]


async def test_a_failure_reaches_all_callers_and_is_not_cached() -> None:
    store = SlowTriggerStore()
    lookup = TriggerLookup(package_with_triggers, store)
    callers = [asyncio.create_task(find_trigger(lookup, "acme")) for _ in range(3)]
    store.failure = AutoReconnect("away")
    store.answer.set()

    told = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(each) for each in told] == [AutoReconnect] * 3

    store.failure = None
    assert await find_trigger(lookup, "acme") == ("Digest/paid@acme", None)


async def test_while_the_store_is_away_packages_and_last_known_states_serve() -> None:
    clock, store = FakeClock(), SlowTriggerStore()
    lookup = TriggerLookup(lambda: package_with_triggers(hook("opened", "acme")), store, clock=clock)
    store.answer.set()
    await find_trigger(lookup, "acme")
    clock.now += 60
    store.failure = AutoReconnect("away")

    def last_known(app_id: str, name: str) -> WebhookSpec | None:
        return lookup.find_last_known(WebhookSpec, TriggerAddress(app_id, "Digest", name))

    with pytest.raises(AutoReconnect):
        await find_trigger(lookup, "acme")
    assert last_known("acme", "opened") == hook("opened", "acme")
    assert last_known("acme", "paid") == hook()
    assert last_known("globex", "paid") is last_known("globex", "opened") is last_known("acme", "never") is None
    assert lookup.find_last_known(FormSpec, TriggerAddress("acme", "Digest", "paid")) is None


async def test_guesses_do_not_fill_the_memory() -> None:
    lookup = TriggerLookup(package_with_triggers, FakeTriggerStore(), max_cached=100)

    for number in range(150):
        await find_trigger(lookup, f"app{number}")

    assert len(lookup._cache) == 100


async def test_a_packages_trigger_of_another_kind_shadows_a_webhook_of_its_name() -> None:
    clockwork = ScheduleSpec.model_validate({"name": "paid", "every": "1h", "apps": ["acme"]})
    chain = RunFinishedSpec.model_validate({"name": "after", "workflow": "Digest"})
    made_later = [created_record(hook(), app_id=app_id) for app_id in ("acme", "globex")] + [
        created_record(hook("after"), app_id="acme")
    ]
    lookup = TriggerLookup(lambda: package_with_triggers(clockwork, chain), FakeTriggerStore(made_later))

    assert await find_trigger(lookup, "acme") is None
    assert await find_trigger(lookup, "globex") == ("Digest/paid@globex", None)
    assert await find_trigger(lookup, "acme", "after") is None  # it serves the app of whatever run has ended


async def test_an_impossible_trigger_name_is_neither_looked_up_nor_cached() -> None:
    kept = FakeTriggerStore()
    lookup = TriggerLookup(lambda: package_with_triggers(hook("paid", "acme")), kept)

    for name in ("x" * 60_000, "paid@acme", "a/b", "", "\0", "$where"):
        assert await find_trigger(lookup, "acme", name) is None

    assert kept.queries == []
    assert len(lookup._cache) == 0
