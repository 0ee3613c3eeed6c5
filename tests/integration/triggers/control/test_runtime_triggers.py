"""Runtime triggers: of one app, with a unique name, and without lost edits."""

import asyncio
from datetime import UTC, datetime

import pytest

from tests.integration.triggers.control.trigger_bench import EVERY_HOUR, FORM, create_test_trigger, ids
from triggers.control.manual_fire import fire
from triggers.control.runtime_triggers import MAX_TRIGGERS_PER_APP, create_trigger, edit, remove
from triggers.control.trigger_errors import (
    EditedMeanwhileError,
    NotForThisKeyError,
    UnfitTriggerError,
    UnknownTriggerError,
    UnknownWorkflowError,
)
from triggers.control.trigger_lists import TriggerFilter
from triggers.control.trigger_names import find_exact, find_runtime_trigger, find_trigger
from triggers.control.trigger_pauses import pause
from triggers.control.trigger_view import show
from triggers.register.trigger import Trigger
from triggers.role_context import RoleContext
from workers.control.change_result import RefusedError

pytestmark = pytest.mark.integration


async def test_a_made_trigger_is_kept_as_it_was_written(ground: RoleContext) -> None:
    known = await create_test_trigger(ground, "acme", EVERY_HOUR)
    shown = await show(ground, known)

    assert (shown["trigger_id"], shown["origin"], shown["app_id"]) == ("Sales/hourly@acme", "api", "acme")
    assert (shown["state"], shown["revision"], shown["apps"]) == ("active", 1, ["acme"])
    assert shown["spec"] == {"name": "hourly", "type": "schedule", "every": "1h"}
    assert shown["next_at"] > datetime.now(UTC)
    assert shown["source"] == "/apps/acme/workflows/Sales/triggers/hourly"


async def test_a_name_is_given_once(ground: RoleContext) -> None:
    """By a package's trigger for the apps that it serves, by another one that was made for the same app."""
    await create_test_trigger(ground, "acme")
    await create_test_trigger(ground, "globex")
    elsewhere = await create_test_trigger(ground, "initech", {**FORM, "name": "nightly"}, workflow="Digest")

    with pytest.raises(RefusedError, match="already"):
        await create_test_trigger(ground, "acme")
    with pytest.raises(RefusedError, match="package Digest has a trigger nightly for acme"):
        await create_test_trigger(ground, "acme", {**FORM, "name": "nightly"}, workflow="Digest")
    assert elsewhere.id == "Digest/nightly@initech"


async def test_what_it_starts_has_to_be_there(ground: RoleContext) -> None:
    with pytest.raises(UnknownWorkflowError, match="no workflow Nowhere"):
        await create_test_trigger(ground, "acme", workflow="Nowhere")


async def test_an_app_cannot_take_what_is_the_operators(ground: RoleContext) -> None:
    secret = {"name": "h", "type": "webhook", "verify": {"scheme": "github", "secret": "env:HOOK_SECRET"}}
    stream = {"name": "s", "type": "database_condition", "database": "shop"}
    for spec in (secret, stream):
        with pytest.raises(NotForThisKeyError):
            await create_trigger(ground, "Sales", "acme", spec, by="test", viewer="acme")
        assert (await create_trigger(ground, "Sales", "acme", spec, by="test")).app_id == "acme"


async def test_of_two_edits_of_one_revision_one_is_kept(ground: RoleContext) -> None:
    known = await create_test_trigger(ground, "acme")

    async def attempt(title: str) -> str | None:
        try:
            edited = await edit(ground, known, {**FORM, "title": title}, by="test", revision=1)
        except EditedMeanwhileError:
            return None
        assert edited.trigger is not None
        return title

    kept = [title for title in await asyncio.gather(*(attempt(f"t{n}") for n in range(8))) if title]
    shown = await show(ground, await find_trigger(ground, "ask"))

    assert len(kept) == 1
    assert (shown["spec"]["title"], shown["revision"]) == (kept[0], 2)
    with pytest.raises(EditedMeanwhileError, match="revision 2"):
        await edit(ground, await find_trigger(ground, "ask"), FORM, by="test", revision=1)
    with pytest.raises(EditedMeanwhileError):
        await remove(ground, known, by="test", revision=1)


async def test_name_and_type_stay_and_a_packages_trigger_is_not_edited(ground: RoleContext) -> None:
    known = await create_test_trigger(ground, "acme")

    with pytest.raises(UnfitTriggerError) as raised:
        await edit(ground, known, {**EVERY_HOUR, "name": "x"}, by="test")
    assert set(raised.value.problems) == {"name", "type"}
    for change in (
        edit(ground, await find_trigger(ground, "lead"), FORM, by="t"),
        remove(ground, await find_trigger(ground, "lead"), by="t"),
    ):
        with pytest.raises(RefusedError, match=r"triggers\.yaml"):
            await change


async def test_an_edit_that_leaves_the_clock_alone_loses_no_tick(ground: RoleContext) -> None:
    known = await create_test_trigger(ground, "acme", EVERY_HOUR)
    due = datetime(2026, 1, 1, tzinfo=UTC)
    await ground.triggers.triggers.update_one({"_id": known.id}, {"$set": {"schedule.next_at": due}})

    same_clock = await edit(ground, await find_trigger(ground, "hourly"), {**EVERY_HOUR, "description": "x"}, by="test")
    same_time = await edit(ground, same_clock, {**EVERY_HOUR, "every": "2h"}, by="test")
    other_clock = await edit(ground, same_time, {**EVERY_HOUR, "every": None, "cron": "30 * * * *"}, by="test")

    assert same_clock.record is not None
    assert same_time.record is not None
    assert other_clock.record is not None
    assert same_clock.record.document["schedule"]["next_at"] == due
    assert same_time.record.document["schedule"]["next_at"] == due
    assert other_clock.record.document["schedule"]["next_at"] > datetime.now(UTC)


async def test_what_was_removed_is_gone_and_may_be_made_again(ground: RoleContext) -> None:
    known = await create_test_trigger(ground, "acme")
    await remove(ground, known, by="test")

    with pytest.raises(UnknownTriggerError):
        await remove(ground, known, by="test")
    with pytest.raises(UnknownTriggerError):
        await edit(ground, known, FORM, by="test")
    assert (await create_test_trigger(ground, "acme")).id == known.id


async def test_one_that_a_package_has_gone_before_can_still_be_removed(ground: RoleContext) -> None:
    """The package came later: until then there was no such name."""
    spec = (await create_test_trigger(ground, "acme", {**FORM, "name": "lead"})).trigger
    assert spec is not None
    await ground.triggers.create(Trigger("Digest", spec.spec, "acme"))

    shadowed = await find_runtime_trigger(ground, "Digest", "lead", app_id="acme")
    row = await show(ground, shadowed)
    await remove(ground, shadowed, by="test")

    assert (row["state"], "goes first" in row["inactive"]) == ("inactive", True)
    assert (await find_exact(ground, "Digest", "lead", app_id="acme")).app_id is None


async def test_what_another_version_wrote_is_shown_and_can_be_removed(ground: RoleContext) -> None:
    known = await create_test_trigger(ground, "acme")
    newer = {"spec": {"type": "telepathy", "json": "{}"}}
    await ground.triggers.triggers.update_one({"_id": known.id}, {"$set": newer})

    unreadable = await find_trigger(ground, "ask")
    shown = await show(ground, unreadable)

    assert (shown["state"], shown["spec"], shown["apps"]) == ("inactive", None, ["acme"])
    assert await ids(ground, TriggerFilter(workflow="Sales")) == [known.id]
    for change in (pause(ground, unreadable, by="t"), fire(ground, unreadable, by="t")):
        with pytest.raises(RefusedError, match="another version"):
            await change
    await remove(ground, unreadable, by="test")


async def test_an_apps_keys_make_so_many_and_no_more(ground: RoleContext) -> None:
    first = await create_trigger(ground, "Sales", "acme", {**FORM, "name": "first"}, by="test", viewer="acme")
    document = await ground.triggers.triggers.find_one({"_id": first.id})
    copies = range(MAX_TRIGGERS_PER_APP - 2)
    await ground.triggers.triggers.insert_many([{**(document or {}), "_id": f"{first.id}-{copy}"} for copy in copies])
    await create_trigger(ground, "Sales", "acme", {**FORM, "name": "last"}, by="test", viewer="acme")

    with pytest.raises(RefusedError, match="acme has 10000 triggers already"):
        await create_trigger(ground, "Sales", "acme", FORM, by="test", viewer="acme")
    assert (await create_trigger(ground, "Sales", "globex", FORM, by="test", viewer="globex")).app_id == "globex"
    assert (await create_trigger(ground, "Sales", "acme", FORM, by="test")).app_id == "acme"
