"""A trigger is found by its whole name, by its name and app, and by the name alone where no other has it."""

import pytest

from tests.integration.triggers.control.trigger_bench import FORM, create_test_trigger
from triggers.control.trigger_errors import UnknownTriggerError
from triggers.control.trigger_names import find_trigger
from triggers.role_context import RoleContext
from workers.control.change_result import RefusedError

pytestmark = pytest.mark.integration


async def test_a_trigger_is_found_by_each_of_its_names(ground: RoleContext) -> None:
    await create_test_trigger(ground, "acme")
    await create_test_trigger(ground, "a/c@me", {**FORM, "name": "other"})

    named = {
        ("Digest/nightly", None): "Digest/nightly",
        ("nightly", None): "Digest/nightly",
        ("nightly", "globex"): "Digest/nightly",
        ("Sales/ask", None): "Sales/ask@acme",
        ("Sales/ask@acme", None): "Sales/ask@acme",
        ("ask", "acme"): "Sales/ask@acme",
        ("ask", None): "Sales/ask@acme",
        ("other", None): "Sales/other@a%2Fc%40me",
        ("Sales/other@a%2Fc%40me", None): "Sales/other@a%2Fc%40me",
        ("Digest/after", "whoever"): "Digest/after",
    }
    assert {asked: (await find_trigger(ground, asked[0], app_id=asked[1])).id for asked in named} == named


async def test_what_is_not_there_or_not_that_apps_is_unknown(ground: RoleContext) -> None:
    await create_test_trigger(ground, "acme")

    for text, app_id in [
        ("nothing", None),
        ("Sales/nothing", None),
        ("Nothing/ask", None),
        ("Sales/ask@globex", None),
        ("Sales/ask@acme", "globex"),
        ("ask", "globex"),
        ("locked", "globex"),
        ("Digest/locked", "globex"),
        ("", None),
        ("/", None),
        ("@", None),
        ("ask$", None),
        (".*", None),
    ]:
        with pytest.raises(UnknownTriggerError):
            await find_trigger(ground, text, app_id=app_id)


async def test_a_name_that_several_have_is_asked_back(ground: RoleContext) -> None:
    await create_test_trigger(ground, "acme")
    await create_test_trigger(ground, "globex")
    await create_test_trigger(ground, "acme", {**FORM, "name": "nightly"})

    with pytest.raises(RefusedError, match="Sales/ask@acme, Sales/ask@globex"):
        await find_trigger(ground, "Sales/ask")
    with pytest.raises(RefusedError, match="Digest/nightly, Sales/nightly@acme; give the whole name"):
        await find_trigger(ground, "nightly")
