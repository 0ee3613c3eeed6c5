"""Forms as a kind: where one is, what it asks, and what filling it in by hand starts."""

from datetime import UTC, datetime
from typing import Any, cast

import pytest

from triggers.event_expressions import ExpressionError
from triggers.form.form_kind import KIND
from triggers.occurrence import build_run_request
from triggers.register.trigger import Trigger
from workers.settings import Settings
from workflows.package.trigger_specs.form_spec import FormInput, FormSpec

NOW = datetime(2026, 3, 29, tzinfo=UTC)
INPUTS = {"email": FormInput(format="email", required=True), "seats": FormInput(type="integer", default=1)}
NO_DATABASE = cast("Any", None)


def trigger(**changes: Any) -> Trigger:
    return Trigger("Sales", FormSpec(name="lead", inputs=INPUTS, **changes))


def test_a_form_without_an_app_is_inactive_with_a_reason() -> None:
    assert "names no app" in (KIND.inactive_reason(trigger(), Settings()) or "")
    assert KIND.inactive_reason(trigger(apps=("acme",)), Settings()) is None
    assert KIND.inactive_reason(trigger(app_id="=tenant"), Settings()) is None
    made = Trigger("Sales", FormSpec(name="lead", inputs=INPUTS), app_id="acme")
    assert KIND.inactive_reason(made, Settings()) is None


async def test_the_description_names_the_address_per_app_and_the_fields() -> None:
    outlook = await KIND.describe(trigger(apps=("acme", "gl-1")), None, NO_DATABASE, Settings())

    assert outlook["addresses"] == {"acme": "/forms/acme/Sales/lead", "gl-1": "/forms/gl-1/Sales/lead"}
    assert outlook["fields"] == {
        "email": {"type": "string", "format": "email", "required": True, "max_length": 10_000},
        "seats": {"type": "integer", "required": False, "default": 1},
    }


async def test_the_address_of_a_form_whose_answers_name_the_app_leaves_it_open() -> None:
    outlook = await KIND.describe(trigger(app_id="=tenant"), None, NO_DATABASE, Settings())
    assert outlook["addresses"] == {"{app}": "/forms/{app}/Sales/lead"}


def test_fired_by_hand_it_is_checked_like_a_filled_in_form() -> None:
    happening = KIND.manual_event(trigger(apps=("acme",)), "acme", {"email": "ada@example.com"}, NOW)

    assert happening.id.startswith("manual:")
    assert happening.data == {"email": "ada@example.com", "seats": 1}
    assert build_run_request(happening, run_input=happening.data).app_id == "acme"
    with pytest.raises(ExpressionError, match="email is required; seats must be a whole number; x is not a field"):
        KIND.manual_event(trigger(apps=("acme",)), "acme", {"seats": "2", "x": 1}, NOW)
