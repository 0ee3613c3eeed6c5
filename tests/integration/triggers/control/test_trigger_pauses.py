"""Trigger pauses, for one app or for all."""

import pytest

from tests.integration.triggers.control.trigger_bench import create_test_trigger
from triggers.control.trigger_errors import UnfitTriggerError, UnknownTriggerError
from triggers.control.trigger_names import find_trigger
from triggers.control.trigger_pauses import end_pause, pause
from triggers.control.trigger_view import show
from triggers.role_context import RoleContext
from workers.control.change_result import RefusedError

pytestmark = pytest.mark.integration


async def test_a_packages_trigger_is_paused_for_one_app_or_for_all(ground: RoleContext) -> None:
    hook = await find_trigger(ground, "hook")
    await pause(ground, hook, by="ann", note="moving", app_id="acme")
    one = await show(ground, await find_trigger(ground, "hook"))
    for_acme = await show(ground, await find_trigger(ground, "hook"), app_id="acme")
    await pause(ground, await find_trigger(ground, "hook"), by="ann", note="all")
    with pytest.raises(RefusedError, match="paused for all apps"):
        await end_pause(ground, await find_trigger(ground, "hook"), by="ann", app_id="acme")
    resumed = await end_pause(ground, await find_trigger(ground, "hook"), by="ann")
    again = await end_pause(ground, await find_trigger(ground, "hook"), by="ann")

    assert (one["state"], one["paused"], one["paused_apps"]["acme"]["note"]) == ("active", None, "moving")
    assert for_acme["state"] == "paused"
    assert (resumed.changed, again.changed, again.said) == (True, False, "was not paused")
    assert (await show(ground, await find_trigger(ground, "hook")))["paused_apps"] == {}


async def test_a_second_pause_shows_the_newest_note(ground: RoleContext) -> None:
    await create_test_trigger(ground, "acme")
    for note in ("first", "second"):
        await pause(ground, await find_trigger(ground, "ask"), by="ann", note=note, app_id="acme")

    shown = await show(ground, await find_trigger(ground, "ask"))
    assert (shown["paused"]["note"], shown["paused"]["by"], shown["paused_apps"]) == ("second", "ann", {})


async def test_another_app_is_not_paused(ground: RoleContext) -> None:
    with pytest.raises(UnknownTriggerError):
        await pause(ground, await find_trigger(ground, "hook"), by="ann", app_id="initech")
    with pytest.raises(UnfitTriggerError):
        await pause(ground, await find_trigger(ground, "hook"), by="ann", note="x" * 501)
