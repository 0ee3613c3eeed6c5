"""Trigger specs: aliases, defaults, and refusals without a server."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workflows.package.findings import Finding, Findings
from workflows.package.readers.triggers_reader import read_triggers
from workflows.package.trigger_specs.change_spec import ChangeSpec
from workflows.package.trigger_specs.form_spec import FormSpec
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec
from workflows.package.trigger_specs.spec_field_types import format_duration, parse_duration
from workflows.package.trigger_specs.trigger_spec import TriggerSpec
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

HOOK = {"type": "webhook", "apps": ["acme"], "verify": {"scheme": "github", "secret": "env:S"}}
CHANGE = {"type": "database_condition", "apps": ["acme"], "database": "d", "collection": "c"}
CLOCK = {"type": "schedule", "apps": ["acme"], "every": "1h"}
FORM = {"type": "form_submit", "apps": ["acme"], "inputs": {"email": {"format": "email"}}}


def read(*entries: Mapping[str, Any]) -> tuple[tuple[TriggerSpec, ...], tuple[Finding, ...]]:
    findings = Findings()
    specs = read_triggers([dict(entry) for entry in entries], file="triggers.yaml", findings=findings)
    return tuple(specs.values()), findings.all


def spec(entry: Mapping[str, Any], **fields: Any) -> Any:
    specs, findings = read({**entry, **fields})
    assert findings == ()
    return specs[0]


def refusal(entry: Mapping[str, Any], **fields: Any) -> list[tuple[str, str]]:
    specs, findings = read({**entry, **fields})
    assert specs == ()
    assert {finding.code for finding in findings} == {"bad_trigger"}
    return [(finding.path.removeprefix("triggers[0]").strip("."), finding.message) for finding in findings]


@pytest.mark.design("D4-9")
@pytest.mark.parametrize(
    ("entry", "aliases", "kind"),
    [
        (CLOCK, ["schedule", "scheduled", "cron", "cron_schedule", "Schedule"], ScheduleSpec),
        (CHANGE, ["database_condition", "change_stream", "db"], ChangeSpec),
        (HOOK, ["webhook", "http"], WebhookSpec),
        (FORM, ["form_submit", "form"], FormSpec),
    ],
)
def test_aliases_are_one_type(entry: dict[str, Any], aliases: list[str], kind: type[TriggerSpec]) -> None:
    specs = {alias: spec(entry, type=alias) for alias in aliases}

    assert {type(spec) for spec in specs.values()} == {kind}
    assert {spec.type for spec in specs.values()} == {entry["type"]}


def test_a_name_defaults_to_type_and_index() -> None:
    specs, findings = read({**CLOCK, "name": "own"}, {**HOOK, "type": "http"}, {**CLOCK, "name": None, "type": "cron"})

    assert [spec.name for spec in specs] == ["own", "webhook-1", "schedule-2"]
    assert findings == ()


@pytest.mark.parametrize("name", ["", " ", "a/b", "-a", "a b", "nightly\n", "a" * 101, "é", 5, ["a"]])
def test_a_name_is_what_fits_into_addresses_and_keys(name: object) -> None:
    assert [place for place, _ in refusal(CLOCK, name=name)] == ["name"]
    assert refusal(CLOCK, apps=[name])


@pytest.mark.parametrize(
    ("changed", "place"),
    [
        ({"every": None}, ""),
        ({"cron": "* * * * *"}, "every"),
        ({"every": "0.5s"}, "every"),
        ({"every": "soon"}, "every"),
        ({"every": "-5m"}, "every"),
        ({"every": "99999d"}, "every"),
        ({"every": float("nan")}, "every"),
        ({"every": True}, "every"),
        ({"timezone": "Europe/Nowhere"}, "timezone"),
        ({"timezone": "../../etc/passwd"}, "timezone"),
        ({"timezone": ""}, "timezone"),
        ({"overlap": "maybe"}, "overlap"),
        ({"misfire": {"policy": "never"}}, "misfire.policy"),
        ({"misfire": {"max": 0}}, "misfire.max"),
        ({"misfire": {"policy": "skip", "grace": 0}}, "misfire"),
        ({"misfire": {"grace": "long"}}, "misfire.grace"),
    ],
)
def test_a_bad_schedule_is_refused_at_its_place(changed: dict[str, Any], place: str) -> None:
    assert [where for where, _ in refusal(CLOCK, **changed)] == [place]


@pytest.mark.parametrize(
    "cron",
    [
        "",
        "* * * *",
        "60 * * * *",
        "0 0 30 2 *",
        "0 25 * * *",
        "x * * * *",
        "* * * * * * *",
        "@often",
        "R * * * *",
        "*/0 * * * *",
        "* * * * 8",
        "99999999999999999999 * * * *",
        "0 0 * * 1#9",
        "\x00 * * * *",
    ],
)
def test_a_cron_that_never_fires_is_refused(cron: str) -> None:
    assert [where for where, _ in refusal({**CLOCK, "every": None}, cron=cron)] == ["cron"]


@given(st.text(alphabet="0123456789*/-,#LWRH? @dailyMON", max_size=20))
def test_any_cron_text_is_a_schedule_or_a_finding(cron: str) -> None:
    specs, findings = read({**CLOCK, "every": None, "cron": cron})
    assert len(specs) + len(findings) == 1


@pytest.mark.parametrize("expression", ["", "[", "a ==", "a b", "!" * 5000 + "a", "foo("])
@pytest.mark.parametrize("field", ["when", "input", "message", "app_id", "dedupe"])
def test_a_bad_expression_is_refused_at_its_place(expression: str, field: str) -> None:
    written: Any = expression if field == "when" else f"={expression}"
    given_hook = {name: value for name, value in HOOK.items() if name != "apps" or field != "app_id"}

    refused = refusal(given_hook, **{field: {"x": written} if field == "input" else written})

    assert [place for place, _ in refused] == ["input.x" if field == "input" else field]


def test_expressions_inside_nested_input_are_checked_and_literals_are_not() -> None:
    assert spec(HOOK, input={"a": {"b": ["=x.y", "[not an expression"]}, "n": 5, "t": "a = b"})
    assert refusal(HOOK, input={"a": {"b": ["=["]}})


def test_apps_and_app_id_are_one_or_the_other() -> None:
    assert refusal(HOOK, app_id="=org") == [("app_id", "give either apps or app_id, not both")]


@pytest.mark.parametrize("secret", ["s3cret", "", ["env:A", "s3cret"], [], "ENV:A", 5, None, {"env": "A"}])
def test_a_secret_in_clear_text_is_refused_and_not_repeated(secret: object) -> None:
    refused = refusal(HOOK, verify={"scheme": "standard", "secret": secret})

    assert refused[0][0].startswith("verify")
    assert "s3cret" not in str(refused)


def test_one_secret_is_a_list_of_one() -> None:
    assert spec(HOOK).verify.secret == ("env:S",)
    assert spec(HOOK, verify={"scheme": "standard", "secret": ["env:A", "file:/run/b"]}).verify.secret == (
        "env:A",
        "file:/run/b",
    )


@pytest.mark.parametrize(
    ("entry", "changed", "place"),
    [
        (HOOK, {"verify": {"scheme": "nothing", "secret": "env:S"}}, "verify.scheme"),
        (HOOK, {"verify": None}, "verify"),
        (CHANGE, {"operations": ["drop"]}, "operations[0]"),
        (CHANGE, {"collection": ""}, "collection"),
        (CHANGE, {"on_history_lost": "ignore"}, "on_history_lost"),
        (FORM, {"inputs": {}}, "inputs"),
        (FORM, {"inputs": {"a": {"type": "object"}}}, "inputs.a.type"),
        (FORM, {"inputs": {"a": {"reqired": True}}}, "inputs.a.reqired"),
    ],
)
def test_a_bad_field_is_refused_at_its_place(entry: dict[str, Any], changed: dict[str, Any], place: str) -> None:
    assert [where for where, _ in refusal(entry, **changed)] == [place]


def test_a_trigger_without_apps_is_kept_but_inactive() -> None:
    specs, findings = read({**CLOCK, "apps": []})

    assert len(specs) == 1
    assert [(finding.level, finding.code) for finding in findings] == [("warning", "inactive_trigger")]


@pytest.mark.parametrize(
    ("written", "seconds"),
    [
        *(("30s", 30), ("15m", 900), ("1h", 3600), ("1.5h", 5400), (" 2 d ", 172800), ("250ms", 0.25), (7, 7)),
        *((0.5, 0.5), ("1m30s", 90), ("1d 2h", 93600), ("1h0.5s", 3600.5), ("1s500ms", 1.5)),
    ],
)
def test_durations(written: object, seconds: float) -> None:
    assert parse_duration(written) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "written", ["", " ", "s", "30s1m", "1m1m", "1h30", "-1s", "5 msec", "1" + " " * 60_000, "1" * 60_000]
)
def test_what_is_no_duration_is_refused_at_once(written: str) -> None:
    with pytest.raises(ValueError, match="write a duration"):
        parse_duration(written)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        *((900, "15m"), (3600, "1h"), (90, "1m30s"), (86400, "1d"), (93784, "1d2h3m4s"), (0, "0s"), (2, "2s")),
        *((1.5, "1.5s"), (0.25, "250ms"), (0.0015, "1.5ms"), (12 * 86400, "12d"), (3650 * 86400, "3650d")),
    ],
)
def test_a_duration_is_shown_as_people_write_it(seconds: float, text: str) -> None:
    assert format_duration(timedelta(seconds=seconds)) == text


@given(st.timedeltas(min_value=timedelta(0), max_value=timedelta(days=3650)))
def test_a_shown_duration_can_be_read_again(duration: timedelta) -> None:
    assert parse_duration(format_duration(duration)) == duration


@given(st.one_of(st.text(max_size=8), st.floats(), st.integers(), st.none(), st.booleans(), st.lists(st.none())))
def test_a_duration_is_bounded_or_refused(value: object) -> None:
    try:
        duration = parse_duration(value)
    except ValueError:
        return
    assert timedelta(0) <= duration <= timedelta(days=3650)
