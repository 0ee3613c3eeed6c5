"""Lists of triggers: whole, filtered, page by page, and for an app without a trace of others."""

from datetime import UTC, datetime

import pytest

from tests.integration.triggers.control.trigger_bench import FORM, create_test_trigger, ids
from triggers.control.trigger_lists import TriggerFilter, iter_triggers
from triggers.control.trigger_names import find_trigger
from triggers.control.trigger_pauses import pause
from triggers.control.trigger_view import show
from triggers.register.trigger_store import runtime_query
from triggers.role_context import RoleContext

pytestmark = pytest.mark.integration


async def test_all_are_listed_in_the_order_of_their_ids_and_page_by_page(ground: RoleContext) -> None:
    for app_id in ("acme", "globex", "initech"):
        await create_test_trigger(ground, app_id)
        await create_test_trigger(ground, app_id, {**FORM, "name": "early"}, workflow="Digest")
    everything = await ids(ground)
    paged: list[str] = []
    while page := await ids(ground, after=paged[-1] if paged else "", limit=2):
        paged += page

    assert everything == sorted(everything)
    assert len(everything) == 13
    assert paged == everything


async def test_filters_narrow_each_other(ground: RoleContext) -> None:
    await create_test_trigger(ground, "acme")
    await create_test_trigger(ground, "globex")
    await pause(ground, await find_trigger(ground, "hook"), by="test")
    await pause(ground, await find_trigger(ground, "nightly"), by="test", app_id="globex")
    await pause(ground, await find_trigger(ground, "Sales/ask@globex"), by="test")

    assert await ids(ground, TriggerFilter(workflow="Sales")) == ["Sales/ask@acme", "Sales/ask@globex"]
    assert await ids(ground, TriggerFilter(type="form_submit", app_id="acme")) == ["Digest/lead", "Sales/ask@acme"]
    assert await ids(ground, TriggerFilter(state="paused")) == ["Digest/hook", "Sales/ask@globex"]
    assert await ids(ground, TriggerFilter(state="paused", app_id="globex")) == [
        "Digest/hook",
        "Digest/nightly",
        "Sales/ask@globex",
    ]
    assert await ids(ground, TriggerFilter(state="inactive")) == ["Digest/locked"]


async def test_an_app_sees_itself_and_nothing_of_others(ground: RoleContext) -> None:
    await create_test_trigger(ground, "acme")
    await create_test_trigger(ground, "globex")
    hook = await find_trigger(ground, "hook")
    assert hook.trigger is not None
    await pause(ground, hook, by="root", note="ours", app_id="globex")
    ground.stats.count_accepted(hook.trigger, at=datetime.now(UTC))
    ground.stats.record_skip(hook.trigger, "paused", app_id="globex", event_id="theirs")
    ground.stats.record_skip(hook.trigger, "paused", app_id="acme", event_id="own")
    ground.stats.record_skip(hook.trigger, "paused", event_id="of nobody")
    await ground.stats.write()

    rows = [row async for row in iter_triggers(ground, TriggerFilter("acme"), viewer="acme")]
    shown = await show(ground, await find_trigger(ground, "hook", app_id="acme"), app_id="acme", viewer="acme")
    whole = await show(ground, await find_trigger(ground, "hook"))
    globex = await show(ground, await find_trigger(ground, "hook", app_id="globex"), app_id="globex", viewer="globex")

    assert [row["trigger_id"] for row in rows if row["app_id"]] == ["Sales/ask@acme"]
    for told in (repr(rows), repr(shown)):
        assert "globex" not in told
        assert "SECRET" not in told
        assert "root" not in told
    assert [note["event_id"] for note in shown["notes"]] == ["own"]
    assert (shown["counts"], shown["state"]) == ({}, "active")
    assert (globex["state"], globex["paused"]["note"]) == ("paused", "ours")
    assert len(whole["notes"]) == 3
    assert whole["counts"] == {"accepted": 1, "skipped.paused": 3}


async def test_a_page_in_the_midst_of_many_begins_behind_the_last_id(ground: RoleContext) -> None:
    spec = (await create_test_trigger(ground, "acme")).trigger
    assert spec is not None
    kept = await ground.triggers.triggers.find_one({"_id": "Sales/ask@acme"})
    assert kept is not None
    many = [{**kept, "_id": f"Sales/ask{n:05}@acme", "name": f"ask{n:05}"} for n in range(3000)]
    await ground.triggers.triggers.insert_many(many)

    page = await ids(ground, TriggerFilter(app_id="acme", workflow="Sales"), after="Sales/ask01500@acme", limit=3)

    assert page == [f"Sales/ask{n:05}@acme" for n in (1501, 1502, 1503)]


@pytest.mark.parametrize(
    "wanted",
    [TriggerFilter(), TriggerFilter(app_id="acme"), TriggerFilter(type="form_submit"), TriggerFilter(workflow="Sales")],
    ids=str,
)
async def test_a_page_of_many_reads_no_more_than_it_shows(ground: RoleContext, wanted: TriggerFilter) -> None:
    await create_test_trigger(ground, "acme")
    kept = await ground.triggers.triggers.find_one({"_id": "Sales/ask@acme"})
    assert kept is not None
    names = [(f"ask{n:05}", app_id) for n in range(1000) for app_id in ("acme", "globex")]
    many = [{**kept, "_id": f"Sales/{name}@{app}", "name": name, "app_id": app} for name, app in names]
    await ground.triggers.triggers.insert_many(many)

    query = runtime_query(kind=wanted.type, app_id=wanted.app_id, workflow=wanted.workflow, after="Sales/ask00500@a")
    find = {"find": "triggers", "filter": query, "sort": {"_id": 1}, "limit": 20}
    explained = await ground.database.command("explain", find, verbosity="executionStats")

    stats = explained["executionStats"]
    assert stats["nReturned"] == 20
    assert stats["totalDocsExamined"] == 20
