"""The lookup: which trigger an address names, asked of the store at most once a second."""

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from pymongo.errors import AutoReconnect

from tests.trigger_packages import package_with
from triggers.register.lookup import Lookup
from triggers.register.record import Pause, Record
from triggers.register.store import TriggerStore
from workflows.package.trigger_specs.form import FormSpec
from workflows.package.trigger_specs.kinds import TriggerSpec
from workflows.package.trigger_specs.run_finished import RunFinishedSpec
from workflows.package.trigger_specs.schedule import ScheduleSpec
from workflows.package.trigger_specs.webhook import Verification, WebhookSpec

VERIFY = Verification(scheme="github", secret=("env:S",))
PAUSE = Pause(datetime(2026, 3, 29, tzinfo=UTC), "ada")


class Kept(TriggerStore):
    """Records in memory; asking is counted."""

    def __init__(self, records: Sequence[Record] = ()) -> None:
        self.records_by_id = {each.id: each for each in records}
        self.asked: list[str] = []

    async def find(self, id_: str) -> Record | None:
        self.asked.append(id_)
        return self.records_by_id.get(id_)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def hook(name: str = "paid", *apps: str, app_id: str | None = None) -> WebhookSpec:
    return WebhookSpec(name=name, verify=VERIFY, apps=apps, app_id=app_id)


def made(spec: TriggerSpec | None, *, app_id: str, paused: Pause | None = None) -> Record:
    name = "paid" if spec is None else spec.name
    return Record(f"Digest/{name}@{app_id}", "Digest", name, app_id, spec, 1, paused, {}, {}, (), None, document={})


def state(id_: str, *, paused: Pause | None = None, **paused_apps: Pause) -> Record:
    return Record(id_, "Digest", "paid", None, None, 0, paused, paused_apps, {}, (), None, document={})


async def found(lookup: Lookup, app_id: str, name: str = "paid") -> tuple[str, Pause | None] | None:
    answer = await lookup.find(WebhookSpec, app_id=app_id, workflow="Digest", name=name)
    return None if answer is None else (answer.trigger.id, answer.pause)


async def test_a_packages_trigger_is_found_for_its_apps_alone() -> None:
    lookup = Lookup(lambda: package_with(hook("paid", "acme")), Kept())

    assert await found(lookup, "acme") == ("Digest/paid", None)
    assert await found(lookup, "globex") is None
    assert await found(lookup, "acme", "unpaid") is None


async def test_what_an_expression_names_is_known_with_the_event() -> None:
    lookup = Lookup(lambda: package_with(hook("paid", app_id="=tenant")), Kept())

    assert await found(lookup, "anybody") == ("Digest/paid", None)


async def test_one_made_at_run_time_is_found_for_its_app_alone() -> None:
    lookup = Lookup(package_with, Kept([made(hook(), app_id="acme", paused=PAUSE)]))

    assert await found(lookup, "acme") == ("Digest/paid@acme", PAUSE)
    assert await found(lookup, "globex") is None


async def test_a_packages_trigger_goes_before_one_made_at_run_time() -> None:
    lookup = Lookup(lambda: package_with(hook("paid", "acme")), Kept([made(hook(), app_id="acme")]))

    assert await found(lookup, "acme") == ("Digest/paid", None)


async def test_another_kind_under_the_name_is_not_the_one_that_was_asked_for() -> None:
    form = FormSpec(name="paid", apps=("acme",), inputs={"a": {}})  # type: ignore[dict-item]  # as authors write it
    lookup = Lookup(lambda: package_with(form), Kept([made(hook(), app_id="acme")]))

    assert await found(lookup, "acme") is None


async def test_a_trigger_of_a_workflow_that_is_gone_is_not_found() -> None:
    lookup = Lookup(dict, Kept([made(hook(), app_id="acme")]))

    assert await found(lookup, "acme") is None


async def test_a_pause_is_that_of_the_app() -> None:
    lookup = Lookup(lambda: package_with(hook("paid", "acme", "globex")), Kept([state("Digest/paid", acme=PAUSE)]))

    assert await found(lookup, "acme") == ("Digest/paid", PAUSE)
    assert await found(lookup, "globex") == ("Digest/paid", None)


async def test_a_burst_asks_once_and_a_second_later_again() -> None:
    clock, store = Clock(), Kept()
    lookup = Lookup(package_with, store, clock=clock)

    for _ in range(50):
        assert await found(lookup, "acme") is None
    assert store.asked == ["Digest/paid@acme"]

    store.records_by_id["Digest/paid@acme"] = made(hook(), app_id="acme")
    clock.now += 1.0
    assert await found(lookup, "acme") == ("Digest/paid@acme", None)


class Slow(Kept):
    """Answers when the test says so."""

    def __init__(self) -> None:
        super().__init__([made(hook(), app_id="acme")])
        self.answer = asyncio.Event()
        self.failure: Exception | None = None

    async def find(self, id_: str) -> Record | None:
        record = await super().find(id_)
        await self.answer.wait()
        if self.failure is not None:
            raise self.failure
        return record


async def test_those_who_ask_at_once_share_one_question_whoever_of_them_leaves() -> None:
    store = Slow()
    lookup = Lookup(package_with, store)
    callers = [asyncio.create_task(found(lookup, "acme")) for _ in range(20)]
    await asyncio.sleep(0)

    callers[0].cancel()
    await asyncio.sleep(0)
    store.answer.set()

    assert set(await asyncio.gather(*callers[1:])) == {("Digest/paid@acme", None)}
    assert store.asked == ["Digest/paid@acme"]


async def test_a_failure_is_told_to_all_who_asked_and_not_remembered() -> None:
    store = Slow()
    lookup = Lookup(package_with, store)
    callers = [asyncio.create_task(found(lookup, "acme")) for _ in range(3)]
    store.failure = AutoReconnect("away")
    store.answer.set()

    told = await asyncio.gather(*callers, return_exceptions=True)
    assert [type(each) for each in told] == [AutoReconnect] * 3

    store.failure = None
    assert await found(lookup, "acme") == ("Digest/paid@acme", None)


async def test_while_the_store_is_away_a_package_is_still_known_and_what_the_store_last_said() -> None:
    clock, store = Clock(), Slow()
    lookup = Lookup(lambda: package_with(hook("opened", "acme")), store, clock=clock)
    store.answer.set()
    await found(lookup, "acme")
    clock.now += 60
    store.failure = AutoReconnect("away")

    def known(app_id: str, name: str) -> WebhookSpec | None:
        return lookup.last_known(WebhookSpec, app_id=app_id, workflow="Digest", name=name)

    with pytest.raises(AutoReconnect):
        await found(lookup, "acme")
    assert known("acme", "opened") == hook("opened", "acme")
    assert known("acme", "paid") == hook()
    assert known("globex", "paid") is known("globex", "opened") is known("acme", "never") is None
    assert lookup.last_known(FormSpec, app_id="acme", workflow="Digest", name="paid") is None


async def test_guesses_do_not_fill_the_memory() -> None:
    lookup = Lookup(package_with, Kept(), most_remembered=100)

    for number in range(150):
        await found(lookup, f"app{number}")

    assert len(lookup._remembered) == 100


async def test_a_packages_trigger_of_another_kind_goes_before_a_webhook_of_its_name() -> None:
    clockwork = ScheduleSpec.model_validate({"name": "paid", "every": "1h", "apps": ["acme"]})
    chain = RunFinishedSpec.model_validate({"name": "after", "workflow": "Digest"})
    made_later = [made(hook(), app_id=app_id) for app_id in ("acme", "globex")] + [made(hook("after"), app_id="acme")]
    lookup = Lookup(lambda: package_with(clockwork, chain), Kept(made_later))

    assert await found(lookup, "acme") is None
    assert await found(lookup, "globex") == ("Digest/paid@globex", None)
    assert await found(lookup, "acme", "after") is None  # it serves the app of whatever run has ended


async def test_what_is_no_name_of_a_trigger_is_neither_asked_for_nor_remembered() -> None:
    kept = Kept()
    lookup = Lookup(lambda: package_with(hook("paid", "acme")), kept)

    for name in ("x" * 60_000, "paid@acme", "a/b", "", "\0", "$where"):
        assert await found(lookup, "acme", name) is None

    assert kept.asked == []
    assert not lookup._remembered
