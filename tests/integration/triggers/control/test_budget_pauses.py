"""Budget pauses: the triggers of an exhausted budget, and no operator's pause."""

from dataclasses import replace
from typing import Any

import pytest

from accounting.budgets.budget import Budget
from accounting.budgets.budget_store import BudgetStore
from tests.integration.accounting.budgets.reserving_process import ReservingProcess, set_budget
from tests.integration.triggers.control.trigger_bench import create_test_trigger
from triggers.budget_pauses import BudgetPauser
from triggers.control.trigger_names import find_trigger
from triggers.control.trigger_pauses import end_pause, pause
from triggers.control.trigger_view import show
from triggers.role_context import RoleContext

pytestmark = pytest.mark.integration

OF_ACME = {"after", "each", "hook", "lead", "locked", "nightly", "paid"}


async def spend_budget(ground: RoleContext, **fields: Any) -> Budget:
    budget = await set_budget(ground.store, 100, pause_triggers=True, **fields)
    process = ReservingProcess(ground.store)
    await process.run(app_id="acme", workflow="Digest").call(tokens=100)
    await process.close()
    return budget


async def run_pausing_pass(ground: RoleContext) -> None:
    await BudgetPauser(ground).update_pauses()


async def pauses(ground: RoleContext) -> dict[str, dict[str | None, str]]:
    """By the name of the trigger and the app, why."""
    found: dict[str, dict[str | None, str]] = {}
    async for document in ground.triggers.triggers.find():
        its = {each["app_id"]: each["pause"]["reason"] for each in document.get("paused_apps", {}).values()}
        if document.get("paused"):
            its[None] = document["paused"]["reason"]
        if its:
            found[document["name"]] = its
    return found


async def test_triggers_of_an_app_are_paused_for_it_alone_until_there_is_money(ground: RoleContext) -> None:
    await create_test_trigger(ground, "acme")
    await create_test_trigger(ground, "globex")
    budget = await spend_budget(ground)

    await run_pausing_pass(ground)
    await run_pausing_pass(ground)

    assert await pauses(ground) == {**{name: {"acme": "budget"} for name in OF_ACME}, "ask": {None: "budget"}}
    assert (await show(ground, await find_trigger(ground, "Sales/ask@globex")))["state"] == "active"
    hook = await show(ground, await find_trigger(ground, "hook"), app_id="acme")
    assert hook["state"] == "paused"
    assert hook["paused_apps"]["acme"]["by"] == f"the budget {budget.id}"
    assert hook["paused_apps"]["acme"]["note"] == "its money is spent until its limit is raised"

    await BudgetStore(ground.database).set(replace(budget, limit=200), by="a test")
    await run_pausing_pass(ground)
    assert await pauses(ground) == {}
    assert (await show(ground, await find_trigger(ground, "hook"), app_id="acme"))["state"] == "active"


async def test_a_workflows_budget_pauses_its_triggers_for_all_apps(ground: RoleContext) -> None:
    await create_test_trigger(ground, "acme", workflow="Digest")
    await create_test_trigger(ground, "acme", workflow="Sales")
    await spend_budget(ground, app_id=None, workflow="Digest")

    await run_pausing_pass(ground)

    names = OF_ACME - {"each"} | {"ask"}
    assert await pauses(ground) == {name: {None: "budget"} for name in names}
    assert (await show(ground, await find_trigger(ground, "Sales/ask@acme")))["state"] == "active"


@pytest.mark.parametrize("how", ["removed", "no more", "soft"])
async def test_without_the_budget_or_its_setting_they_go_on(ground: RoleContext, how: str) -> None:
    budget = await spend_budget(ground)
    await run_pausing_pass(ground)
    assert await pauses(ground) != {}

    if how == "removed":
        await BudgetStore(ground.database).remove(budget.id)
    else:
        await BudgetStore(ground.database).set(replace(budget, pause_triggers=False, soft=how == "soft"), by="a test")
    await run_pausing_pass(ground)

    assert await pauses(ground) == {}


async def test_a_pause_of_somebodys_own_is_neither_replaced_nor_ended(ground: RoleContext) -> None:
    await pause(ground, await find_trigger(ground, "hook"), by="ann", note="moving")
    await pause(ground, await find_trigger(ground, "nightly"), by="ann", app_id="acme")
    budget = await spend_budget(ground)

    await run_pausing_pass(ground)
    now = await pauses(ground)
    assert (now["hook"], now["nightly"]) == ({None: "operator"}, {"acme": "operator"})
    await pause(ground, await find_trigger(ground, "lead"), by="ann", app_id="acme")
    await BudgetStore(ground.database).remove(budget.id)
    await run_pausing_pass(ground)

    assert await pauses(ground) == {
        "hook": {None: "operator"},
        "nightly": {"acme": "operator"},
        "lead": {"acme": "operator"},
    }


async def test_a_manual_resume_holds_until_the_budget_changes(ground: RoleContext) -> None:
    budget = await spend_budget(ground)
    await run_pausing_pass(ground)
    await end_pause(ground, await find_trigger(ground, "hook"), by="ann", app_id="acme")

    await run_pausing_pass(ground)
    assert "hook" not in await pauses(ground)
    await BudgetStore(ground.database).set(replace(budget, limit=50), by="a test")
    await run_pausing_pass(ground)
    assert (await pauses(ground))["hook"] == {"acme": "budget"}


async def test_a_manual_resume_holds_where_a_lower_limit_has_been_spent(ground: RoleContext) -> None:
    budget = await set_budget(ground.store, 1000, pause_triggers=True)
    process = ReservingProcess(ground.store)
    await process.run(app_id="acme").call(tokens=100)
    await process.close()
    await BudgetStore(ground.database).set(replace(budget, limit=50), by="a test")
    await run_pausing_pass(ground)
    assert "hook" in await pauses(ground)

    await end_pause(ground, await find_trigger(ground, "hook"), by="ann", app_id="acme")
    await run_pausing_pass(ground)

    assert "hook" not in await pauses(ground)


async def test_a_second_budget_that_is_spent_after_one_was_resumed_pauses_it(ground: RoleContext) -> None:
    await spend_budget(ground)
    await run_pausing_pass(ground)
    await end_pause(ground, await find_trigger(ground, "hook"), by="ann", app_id="acme")

    newer = await set_budget(ground.store, 50, workflow="Digest", pause_triggers=True)
    await run_pausing_pass(ground)

    hook = await show(ground, await find_trigger(ground, "hook"), app_id="acme")
    assert hook["paused_apps"]["acme"]["by"] == f"the budget {newer.id}"


async def test_a_per_app_budget_pauses_nothing_of_an_app_with_its_own(ground: RoleContext) -> None:
    await set_budget(ground.store, 1000)
    await spend_budget(ground, app_id="*")

    await run_pausing_pass(ground)

    assert await pauses(ground) == {}


async def test_without_such_a_budget_no_trigger_has_a_document(ground: RoleContext) -> None:
    await set_budget(ground.store, 0)

    assert await BudgetPauser(ground).update_pauses() > 0
    assert await ground.triggers.triggers.count_documents({}) == 0
