"""Pausing by budget: triggers of who has spent everything, and nobody else's pause."""

from dataclasses import replace
from typing import Any

import pytest

from accounting.budgets.budget import Budget
from accounting.budgets.store import Budgets
from tests.integration.accounting.budgets.process import Process, set_budget
from tests.integration.triggers.control.ground import made
from triggers.budget_pausing import BudgetPausing
from triggers.control.naming import find
from triggers.control.pausing import pause, resume
from triggers.control.showing import show
from triggers.role import TriggerGround

pytestmark = pytest.mark.integration

OF_ACME = {"after", "each", "hook", "lead", "locked", "nightly", "paid"}


async def spent(ground: TriggerGround, **more: Any) -> Budget:
    budget = await set_budget(ground.store, 100, pause_triggers=True, **more)
    process = Process(ground.store)
    await process.run(app_id="acme", workflow="Digest").call(tokens=100)
    await process.close()
    return budget


async def look(ground: TriggerGround) -> None:
    await BudgetPausing(ground).look()


async def pauses(ground: TriggerGround) -> dict[str, dict[str | None, str]]:
    """By the name of the trigger and the app, why."""
    found: dict[str, dict[str | None, str]] = {}
    async for document in ground.triggers.triggers.find():
        its = {each["app_id"]: each["pause"]["reason"] for each in document.get("paused_apps", {}).values()}
        if document.get("paused"):
            its[None] = document["paused"]["reason"]
        if its:
            found[document["name"]] = its
    return found


async def test_what_starts_runs_of_an_app_is_paused_for_it_alone_until_there_is_money(ground: TriggerGround) -> None:
    await made(ground, "acme")
    await made(ground, "globex")
    budget = await spent(ground)

    await look(ground)
    await look(ground)

    assert await pauses(ground) == {**{name: {"acme": "budget"} for name in OF_ACME}, "ask": {None: "budget"}}
    assert (await show(ground, await find(ground, "Sales/ask@globex")))["state"] == "active"
    hook = await show(ground, await find(ground, "hook"), app_id="acme")
    assert hook["state"] == "paused"
    assert hook["paused_apps"]["acme"]["by"] == f"the budget {budget.id}"
    assert hook["paused_apps"]["acme"]["note"] == "its money is spent until its limit is raised"

    await Budgets(ground.database).set(replace(budget, limit=200), by="a test")
    await look(ground)
    assert await pauses(ground) == {}
    assert (await show(ground, await find(ground, "hook"), app_id="acme"))["state"] == "active"


async def test_a_workflows_budget_pauses_its_triggers_for_all_apps(ground: TriggerGround) -> None:
    await made(ground, "acme", workflow="Digest")
    await made(ground, "acme", workflow="Sales")
    await spent(ground, app_id=None, workflow="Digest")

    await look(ground)

    names = OF_ACME - {"each"} | {"ask"}
    assert await pauses(ground) == {name: {None: "budget"} for name in names}
    assert (await show(ground, await find(ground, "Sales/ask@acme")))["state"] == "active"


@pytest.mark.parametrize("how", ["removed", "no more", "soft"])
async def test_without_the_budget_or_its_wish_they_go_on(ground: TriggerGround, how: str) -> None:
    budget = await spent(ground)
    await look(ground)
    assert await pauses(ground) != {}

    if how == "removed":
        await Budgets(ground.database).remove(budget.id)
    else:
        await Budgets(ground.database).set(replace(budget, pause_triggers=False, soft=how == "soft"), by="a test")
    await look(ground)

    assert await pauses(ground) == {}


async def test_a_pause_of_somebodys_own_is_neither_replaced_nor_ended(ground: TriggerGround) -> None:
    await pause(ground, await find(ground, "hook"), by="ann", note="moving")
    await pause(ground, await find(ground, "nightly"), by="ann", app_id="acme")
    budget = await spent(ground)

    await look(ground)
    now = await pauses(ground)
    assert (now["hook"], now["nightly"]) == ({None: "operator"}, {"acme": "operator"})
    await pause(ground, await find(ground, "lead"), by="ann", app_id="acme")
    await Budgets(ground.database).remove(budget.id)
    await look(ground)

    assert await pauses(ground) == {
        "hook": {None: "operator"},
        "nightly": {"acme": "operator"},
        "lead": {"acme": "operator"},
    }


async def test_who_resumes_one_by_hand_is_not_overruled_until_the_budget_changes(ground: TriggerGround) -> None:
    budget = await spent(ground)
    await look(ground)
    await resume(ground, await find(ground, "hook"), by="ann", app_id="acme")

    await look(ground)
    assert "hook" not in await pauses(ground)
    await Budgets(ground.database).set(replace(budget, limit=50), by="a test")
    await look(ground)
    assert (await pauses(ground))["hook"] == {"acme": "budget"}


async def test_who_resumes_one_is_not_overruled_where_a_lower_limit_has_made_it_spent(ground: TriggerGround) -> None:
    budget = await set_budget(ground.store, 1000, pause_triggers=True)
    process = Process(ground.store)
    await process.run(app_id="acme").call(tokens=100)
    await process.close()
    await Budgets(ground.database).set(replace(budget, limit=50), by="a test")
    await look(ground)
    assert "hook" in await pauses(ground)

    await resume(ground, await find(ground, "hook"), by="ann", app_id="acme")
    await look(ground)

    assert "hook" not in await pauses(ground)


async def test_a_second_budget_that_is_spent_after_one_was_resumed_pauses_it(ground: TriggerGround) -> None:
    await spent(ground)
    await look(ground)
    await resume(ground, await find(ground, "hook"), by="ann", app_id="acme")

    newer = await set_budget(ground.store, 50, workflow="Digest", pause_triggers=True)
    await look(ground)

    hook = await show(ground, await find(ground, "hook"), app_id="acme")
    assert hook["paused_apps"]["acme"]["by"] == f"the budget {newer.id}"


async def test_a_budget_of_each_app_pauses_nothing_of_one_whose_own_goes_before_it(ground: TriggerGround) -> None:
    await set_budget(ground.store, 1000)
    await spent(ground, app_id="*")

    await look(ground)

    assert await pauses(ground) == {}


async def test_without_such_a_budget_no_trigger_has_a_document(ground: TriggerGround) -> None:
    await set_budget(ground.store, 0)

    assert await BudgetPausing(ground).look() > 0
    assert await ground.triggers.triggers.count_documents({}) == 0
