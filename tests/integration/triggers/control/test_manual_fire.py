"""Firing by hand: a run of the trigger's type for each app, or none at all."""

from typing import Any

import pytest

from tests.integration.triggers.control.trigger_bench import EVERY_HOUR, create_test_trigger, runs
from triggers.control.manual_fire import fire
from triggers.control.trigger_errors import UnfitTriggerError, UnknownTriggerError
from triggers.control.trigger_names import find_trigger
from triggers.control.trigger_pauses import pause
from triggers.control.trigger_view import show
from triggers.role_context import RoleContext

pytestmark = pytest.mark.integration


async def test_each_of_its_apps_gets_a_run_of_the_triggers_type(ground: RoleContext) -> None:
    fired = await fire(ground, await find_trigger(ground, "hook"), by="ann", event={"number": 7, "prices": [1, 2]})
    found = {run["_id"]: run for run in await runs(ground)}
    await ground.stats.write()
    shown = await show(ground, await find_trigger(ground, "hook"))

    assert {each.run_id: each.app_id for each in fired} == {id_: run["app_id"] for id_, run in found.items()}
    assert sorted(run["app_id"] for run in found.values()) == ["acme", "globex"]
    for run in found.values():
        assert run["trigger"]["type"] == "webhook"
        assert run["trigger"]["id"].startswith("manual:")
        assert run["input"] == {"number": 7, "total": 3}
    assert shown["last_fired_at"] is not None


async def test_twice_by_hand_is_two_runs_also_while_paused(ground: RoleContext) -> None:
    await create_test_trigger(ground, "acme", EVERY_HOUR)
    await pause(ground, await find_trigger(ground, "hourly"), by="ann")
    for _ in range(2):
        await fire(ground, await find_trigger(ground, "hourly"), by="ann")

    assert [run["app_id"] for run in await runs(ground)] == ["acme", "acme"]


async def test_a_form_is_filled_in_and_an_ended_run_made_up(ground: RoleContext) -> None:
    await fire(ground, await find_trigger(ground, "lead"), by="ann", event={"email": "a@b.example"})
    await fire(ground, await find_trigger(ground, "after"), by="ann", app_id="initech", event={"run_id": "run_1"})

    found = {run["trigger"]["name"]: run for run in await runs(ground)}
    assert found["lead"]["input"] == {"email": "a@b.example"}
    assert found["after"]["app_id"] == "initech"


@pytest.mark.parametrize(
    ("name", "app_id", "event"),
    [
        ("paid", None, {"fullDocument": {"app_id": "acme"}}),
        ("paid", "acme", {"fullDocument": {"app_id": "acme"}}),
        ("paid", "acme", {"fullDocument": {"total": 3}}),
        ("after", None, {"app_id": "acme"}),
    ],
)
async def test_the_app_comes_from_the_event_where_it_names_one(
    ground: RoleContext, name: str, app_id: str | None, event: dict[str, Any]
) -> None:
    fired = await fire(ground, await find_trigger(ground, name), by="ann", app_id=app_id, event=event)

    assert [each.app_id for each in fired] == ["acme"]
    assert [run["app_id"] for run in await runs(ground)] == ["acme"]


@pytest.mark.parametrize(
    ("name", "app_id", "event", "said"),
    [
        ("lead", None, {"email": "nobody"}, "event: email"),
        ("paid", None, {}, "app_id: is needed"),
        ("paid", "acme", {"fullDocument": {"app_id": "globex"}}, "app_id: is acme, but the event names globex"),
        ("paid", "acme", {"fullDocument": {"app_id": ["acme"]}}, "event: .*text is needed"),
        ("paid", None, {"fullDocument": {"app_id": "a\n"}}, "event: .*no usable name"),
        ("after", None, {"app_id": "a\n"}, "event: .*no usable name"),
        ("after", None, {"app_id": "a" * 201}, "event: .*no usable name"),
        ("after", "acme", {"app_id": "globex"}, "app_id: is acme, but the event names globex"),
        ("hook", None, {"prices": ["x"]}, "event: "),
        ("hook", None, {"number": 2**70}, "event: "),
    ],
)
async def test_what_does_not_fit_starts_nothing(
    ground: RoleContext, name: str, app_id: str | None, event: dict[str, Any], said: str
) -> None:
    with pytest.raises(UnfitTriggerError, match=said):
        await fire(ground, await find_trigger(ground, name), by="ann", app_id=app_id, event=event)
    assert await runs(ground) == []


async def test_the_apps_of_a_collection_are_those_that_it_names_now(ground: RoleContext) -> None:
    apps = [f"app{number:03}" for number in range(450)]
    await ground.database["Apps"].insert_many([{"_id": app_id} for app_id in apps])

    with pytest.raises(UnknownTriggerError, match="Many/each of initech"):
        await fire(ground, await find_trigger(ground, "each"), by="ann", app_id="initech")
    one = await fire(ground, await find_trigger(ground, "each"), by="ann", app_id="app007")
    fired = await fire(ground, await find_trigger(ground, "each"), by="ann")

    assert [each.app_id for each in one] == ["app007"]
    assert sorted(each.app_id for each in fired) == apps
    assert await ground.store.runs.count_documents({}) == 451
