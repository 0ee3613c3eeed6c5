"""A trigger created at run time is validated as a whole before it is stored."""

from typing import Any

import pytest

from triggers.control.runtime_triggers import MAX_SPEC_BYTES, validate_spec
from triggers.control.trigger_errors import UnfitTriggerError
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

NIGHTLY: dict[str, Any] = {"name": "nightly", "type": "schedule", "cron": "30 2 * * *"}
HOOK: dict[str, Any] = {"name": "hook", "type": "webhook", "verify": {"scheme": "github", "secret": "env:S"}}


def nested_value(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def problems(spec: dict[str, Any]) -> dict[str, str]:
    with pytest.raises(UnfitTriggerError) as raised:
        validate_spec(spec, app_id="acme")
    return dict(raised.value.problems)


@pytest.mark.parametrize("type_", ["schedule", "cron", " Cron_Schedule "])
def test_a_type_may_have_the_names_that_packages_use(type_: str) -> None:
    spec = validate_spec({**NIGHTLY, "type": type_, "every": None}, app_id="acme")

    assert isinstance(spec, ScheduleSpec)
    assert (spec.type, spec.cron) == ("schedule", "30 2 * * *")


@pytest.mark.parametrize("own", [{}, {"apps": ["acme"]}, {"app_id": "acme"}])
def test_its_own_app_may_be_named(own: dict[str, Any]) -> None:
    assert validate_spec({**NIGHTLY, **own}, app_id="acme").name == "nightly"


@pytest.mark.parametrize(
    ("other", "place"),
    [
        ({"apps": ["globex"]}, "apps"),
        ({"apps": ["acme", "globex"]}, "apps"),
        ({"apps": {"collection": "Apps"}}, "apps"),
        ({"app_id": "globex"}, "app_id"),
    ],
)
def test_another_app_may_not(other: dict[str, Any], place: str) -> None:
    assert list(problems({**NIGHTLY, **other})) == [place]


def test_an_app_that_the_event_names_may_not_either() -> None:
    assert list(problems({**HOOK, "app_id": "=tenant"})) == ["app_id"]


def test_all_problems_are_reported_at_once() -> None:
    said = problems({"name": "bad name", "type": "schedule", "cron": "61 * * * *", "timezone": "Nowhere", "evry": "1s"})

    assert {"name", "timezone", "evry"} <= set(said)


@pytest.mark.parametrize(
    ("given", "place"),
    [
        ({}, "type"),
        ({"type": None}, "type"),
        ({"type": 5}, "type"),
        ({"type": "telepathy"}, "type"),
        ({"type": "schedule"}, "name"),
        ({**NIGHTLY, "cron": "0 0 31 2 *"}, "cron"),
        ({**NIGHTLY, "input": {"a": "=not valid ("}}, "input.a"),
        ({**NIGHTLY, "input": {"a": 2**70}}, ""),
        ({**NIGHTLY, "input": {"a": "\ud800"}}, ""),
        ({**NIGHTLY, "input": nested_value(70)}, ""),
        ({**NIGHTLY, "input": {"a": "x" * MAX_SPEC_BYTES}}, ""),
        ({**HOOK, "verify": {"scheme": "github", "secret": "hunter2"}}, "verify.secret"),
    ],
)
def test_what_is_no_trigger_is_refused_with_its_place(given: dict[str, Any], place: str) -> None:
    said = problems(given)

    assert place in said or (place and any(each.startswith(place) for each in said)), said
    assert "hunter2" not in str(said)


def test_the_errors_text_names_each_place() -> None:
    assert str(UnfitTriggerError({"cron": "is wrong", "": "is too large"})) == "cron: is wrong; is too large"
