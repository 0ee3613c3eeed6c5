"""Resuming a stream: the pause ends and the stream moves, or neither."""

from typing import Any

import pytest

from tests.integration.triggers.control.trigger_bench import create_test_trigger
from triggers.control.trigger_errors import NotForThisKeyError, UnfitTriggerError
from triggers.control.trigger_names import find_trigger
from triggers.control.trigger_pauses import pause, resume
from triggers.control.trigger_view import show
from triggers.role_context import RoleContext
from workers.control.change_result import RefusedError

pytestmark = pytest.mark.integration


async def insert_stream(ground: RoleContext, **changes: Any) -> dict[str, Any]:
    """Of the trigger `paid`, as a watcher leaves it that has lost the history."""
    found = {"_id": "shop", "state": "suspended", "gaps": [], "lease": {"owner": None, "until": None}, **changes}
    await ground.database["streams"].replace_one({"_id": "shop"}, found, upsert=True)
    return found


async def test_a_suspended_stream_waits_until_its_position_is_chosen(ground: RoleContext) -> None:
    await insert_stream(ground)
    await pause(ground, await find_trigger(ground, "paid"), by="ann")

    with pytest.raises(RefusedError, match="its stream shop is suspended; say where it resumes"):
        await resume(ground, await find_trigger(ground, "paid"), by="ann")
    told = await resume(ground, await find_trigger(ground, "paid"), by="ann", from_="now")
    kept = await ground.database["streams"].find_one({"_id": "shop"})

    assert "goes on from now, with the stream shop" in told.said
    assert kept is not None
    assert (kept["state"], kept["resumed"]["by"]) == ("running", "ann")
    assert (await show(ground, await find_trigger(ground, "paid")))["outlook"]["state"] == "running"


async def test_a_stream_that_cannot_go_on_from_there_leaves_the_trigger_paused(ground: RoleContext) -> None:
    await insert_stream(ground, state="running")
    await pause(ground, await find_trigger(ground, "paid"), by="ann", note="ours")

    with pytest.raises(RefusedError, match="no saved position"):
        await resume(ground, await find_trigger(ground, "paid"), by="bob", from_="token")

    shown = await show(ground, await find_trigger(ground, "paid"))
    assert (shown["state"], shown["paused"]["note"], shown["paused"]["by"]) == ("paused", "ours", "ann")


async def test_which_keys_may_move_a_shared_position(ground: RoleContext) -> None:
    await insert_stream(ground)
    await create_test_trigger(ground, "acme")

    with pytest.raises(NotForThisKeyError):
        await resume(ground, await find_trigger(ground, "paid"), by="x", app_id="acme", from_="now", viewer="acme")
    with pytest.raises(UnfitTriggerError, match="leave the app out"):
        await resume(ground, await find_trigger(ground, "paid"), by="x", app_id="acme", from_="now")
    with pytest.raises(RefusedError, match="is a form_submit"):
        await resume(ground, await find_trigger(ground, "ask"), by="x", from_="now")
    own = await resume(ground, await find_trigger(ground, "paid"), by="x", app_id="acme", viewer="acme")

    assert own.said == "was not paused for acme"
    assert (await ground.database["streams"].find_one({"_id": "shop"}) or {})["state"] == "suspended"
