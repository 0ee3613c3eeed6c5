"""The reader of triggers: foreign dialects, unsupported types, and every broken shape."""

from typing import Any

import pytest
from hypothesis import given as generated
from hypothesis import strategies as st

from workflows.package.findings import Finding, Findings
from workflows.package.readers.triggers_reader import read_triggers
from workflows.package.trigger_specs.form_spec import FormSpec
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec
from workflows.package.trigger_specs.trigger_spec import TriggerSpec
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

FILE = "triggers.yaml"
HOOK: dict[str, Any] = {"type": "webhook", "apps": ["acme"], "verify": {"scheme": "github", "secret": "env:S"}}
STANDARD: dict[str, Any] = {**HOOK, "verify": {"scheme": "standard", "secret": "env:S"}}
WEEKLY: dict[str, Any] = {"type": "schedule", "apps": ["acme"], "cron": "0 6 * * 1"}


def read(entries: Any) -> tuple[tuple[TriggerSpec, ...], tuple[Finding, ...]]:
    findings = Findings()
    return tuple(read_triggers(entries, file=FILE, findings=findings).values()), findings.all


def findings_of(entries: Any) -> list[tuple[str, str, str, str]]:
    return [(finding.level, finding.code, finding.file, finding.path) for finding in read(entries)[1]]


def test_triggers_written_for_another_runtime_are_read() -> None:
    specs, findings = read(
        [
            {"type": "scheduled", "cron": "0 6 * * 1", "description": "Weekly check"},
            {"type": "manual", "endpoint": "/api/trigger", "description": "By hand"},
            {"type": "threshold", "condition": "usage > 0.8", "description": "When much is used"},
            {"type": "chat", "description": "Start via chat transport"},
            {"type": "event", "event": "domain.task_created", "context": {"task_id": "payload.task_id"}},
        ]
    )
    assert [(type(spec), spec.name, spec.description) for spec in specs] == [
        (ScheduleSpec, "schedule-0", "Weekly check")
    ]
    assert [(finding.level, finding.code, finding.path) for finding in findings] == [
        ("warning", "inactive_trigger", "triggers[0]"),
        ("warning", "unsupported_trigger", "triggers[1]"),
        ("warning", "unsupported_trigger", "triggers[2]"),
        ("info", "not_ours", "triggers[3]"),
        ("warning", "unsupported_trigger", "triggers[4]"),
    ]
    assert "unattended enqueue" in findings[1].message


@pytest.mark.design("D4-9")
@pytest.mark.parametrize("kind", ["chat", "chat_start", "user", "Chat"])
def test_a_chat_is_not_ours(kind: str) -> None:
    assert findings_of([{"type": kind}]) == [("info", "not_ours", FILE, "triggers[0]")]


@pytest.mark.parametrize(
    "entry",
    [
        {"type": "manual"},
        {"type": "endpoint", "endpoint": "/x", "method": "POST"},
        {"endpoint": "/x"},
        {"event": "domain.x", "capability_id": "c"},
        {"type": " Event ", "event": "domain.x"},
    ],
)
def test_a_trigger_not_called_here_starts_nothing_and_refuses_nothing(entry: dict[str, Any]) -> None:
    assert read([entry])[0] == ()
    assert findings_of([entry]) == [("warning", "unsupported_trigger", FILE, "triggers[0]")]


@pytest.mark.parametrize("field", ["cron", "cron_schedule", "schedule", "expression"])
def test_a_cron_has_several_names(field: str) -> None:
    specs, findings = read([{"type": "cron_schedule", "apps": ["acme"], field: "0 6 * * 1"}])
    assert findings == ()
    assert [spec.cron for spec in specs if isinstance(spec, ScheduleSpec)] == ["0 6 * * 1"]


def test_one_cron_under_two_names_is_one_cron() -> None:
    assert findings_of([{**WEEKLY, "schedule": "0 6 * * 1"}]) == []
    assert findings_of([{**WEEKLY, "schedule": "0 7 * * 1"}]) == [
        ("error", "bad_trigger", FILE, "triggers[0].schedule")
    ]


def test_an_endpoint_with_a_signature_is_a_webhook() -> None:
    specs, findings = read([{**HOOK, "type": "endpoint", "endpoint": "/x", "path": "/x", "method": "POST"}])

    assert [type(spec) for spec in specs] == [WebhookSpec]
    assert [(finding.level, finding.code, finding.path) for finding in findings] == [
        ("warning", "not_executed", "triggers[0].endpoint"),
        ("warning", "not_executed", "triggers[0].path"),
        ("warning", "not_executed", "triggers[0].method"),
    ]


def test_a_dedupe_that_never_applies_is_reported() -> None:
    assert findings_of([{**STANDARD, "dedupe": "=id"}]) == [
        ("warning", "dedupe_never_applies", FILE, "triggers[0].dedupe")
    ]
    assert findings_of([{**HOOK, "dedupe": "=id"}, STANDARD]) == []


@pytest.mark.parametrize("root", [None, [], {}, {"triggers": None}, {"triggers": [], "schema_version": "v1"}])
def test_no_triggers_are_no_fault(root: Any) -> None:
    assert read(root) == ((), ())


@pytest.mark.parametrize(
    ("root", "expected"),
    [
        (5, [("error", "wrong_type", "triggers")]),
        ("schedule", [("error", "wrong_type", "triggers")]),
        (False, [("error", "wrong_type", "triggers")]),
        ({"triggers": 5}, [("error", "wrong_type", "triggers")]),
        (WEEKLY, [("error", "wrong_type", "triggers")]),
        ({"triggers": [WEEKLY], "jobs": [1]}, [("warning", "not_executed", "jobs")]),
        (["x"], [("error", "wrong_type", "triggers[0]")]),
        ([None, {}], [("error", "wrong_type", "triggers[0]"), ("error", "unknown_trigger", "triggers[1].type")]),
        ([{"type": None}], [("error", "unknown_trigger", "triggers[0].type")]),
        ([{"type": 5}], [("error", "unknown_trigger", "triggers[0].type")]),
        ([{"type": ["schedule"]}], [("error", "unknown_trigger", "triggers[0].type")]),
        ([{"type": "pigeon"}], [("error", "unknown_trigger", "triggers[0].type")]),
        ([{**WEEKLY, "cron": "99 * * * *"}], [("error", "bad_trigger", "triggers[0].cron")]),
        (
            [{"type": "cron", "apps": ["acme"], "expression": "99 * * * *"}],
            [("error", "bad_trigger", "triggers[0].expression")],
        ),
        ([{**WEEKLY, "cronn": "1"}], [("error", "bad_trigger", "triggers[0].cronn")]),
        ([{**WEEKLY, "app_id": "b"}], [("error", "bad_trigger", "triggers[0].app_id")]),
        ([{**WEEKLY, "cron": ["0 6 * * 1"]}], [("error", "bad_trigger", "triggers[0].cron")]),
        ([{**WEEKLY, "endpoint": "/x"}], [("error", "bad_trigger", "triggers[0].endpoint")]),
        ([{**WEEKLY, "name": "a"}, {**HOOK, "name": "a"}], [("error", "duplicate_trigger", "triggers[1]")]),
        ([{**WEEKLY, "apps": []}], [("warning", "inactive_trigger", "triggers[0]")]),
    ],
)
def test_a_fault_is_found_where_it_is(root: Any, expected: list[tuple[str, str, str]]) -> None:
    assert findings_of(root) == [(level, code, FILE, path) for level, code, path in expected]


CHANGE: dict[str, Any] = {"type": "database_condition", "apps": ["acme"], "database": "shop", "collection": "orders"}
EVERY: dict[str, Any] = {"type": "schedule", "apps": ["acme"], "every": "1h"}
WHOLE = {key: value for key, value in CHANGE.items() if key != "collection"}
AFTER: dict[str, Any] = {"type": "run_finished", "workflow": "Refunds"}


def scheme(name: str, **fields: Any) -> dict[str, Any]:
    return {**HOOK, "verify": {"scheme": name, **fields}}


@pytest.mark.parametrize(
    "entry",
    [
        {**EVERY, "jitter": "30s"},
        {**EVERY, "overlap": "buffer_one"},
        {**EVERY, "overlap": "cancel_previous", "pause_after_failures": 3, "start": "2026-01-01", "end": "2027-01-01"},
        {**EVERY, "apps": {"collection": "Apps", "field": "_id", "filter": {"paid": True}}},
        {"type": "schedule", "apps": ["acme"], "at": "2026-12-24T18:00", "timezone": "Europe/Berlin"},
        WHOLE,
        {**CHANGE, "pipeline": [{"$match": {"a": 1}}], "pre_image": "required", "full_document": "off"},
        {**CHANGE, "ordering": "strict", "debounce": "5s", "loop_guard": {"max": 5, "per": "10s"}},
        scheme("standard", secret="env:S"),
        scheme("svix", secret="env:S"),
        scheme("stripe", secret="env:S"),
        scheme("slack", secret="env:S"),
        scheme("hmac", secret=["env:S", "file:/run/s"], header="X-Signature", timestamp_header="X-Time"),
        scheme("bearer", secret="env:S", header="X-Gitlab-Token"),
        scheme("basic", secret="env:S", username="shop"),
        {**HOOK, "accept": ["json", "form", "text"], "rate": "60/m"},
        AFTER,
        {**AFTER, "outcome": ["completed", "failed"], "input": {"id": "=run_id"}, "apps": ["acme"]},
        {**AFTER, "outcome": "any"},
    ],
)
def test_every_field_of_the_format_is_taken(entry: dict[str, Any]) -> None:
    specs, findings = read([entry])

    assert (len(specs), findings) == (1, ())


@pytest.mark.parametrize(
    ("entry", "place", "words"),
    [
        ({**EVERY, "at": "2026-12-24"}, "at", "only one of"),
        ({"type": "schedule", "apps": ["acme"]}, "", "give one of"),
        ({"type": "schedule", "apps": ["acme"], "at": "noon"}, "at", "write a time such as"),
        ({**EVERY, "start": "2026-02-01", "end": "2026-01-01"}, "end", "after start"),
        ({**EVERY, "apps": [], "app_id": "=tenant"}, "app_id", "no event"),
        ({**EVERY, "apps": {"colection": "Apps"}}, "apps.collection", "is required"),
        ({**EVERY, "apps": "acme"}, "apps", "must be a list"),
        ({**EVERY, "pause_after_failures": 0}, "pause_after_failures", "at least 1"),
        ({**CHANGE, "pipeline": [{"$out": "elsewhere"}]}, "pipeline", "$match"),
        ({**CHANGE, "pipeline": [{"$match": {}, "$set": {}}]}, "pipeline", "$match"),
        ({**CHANGE, "loop_guard": {"max": 0}}, "loop_guard.max", "at least 1"),
        (scheme("stripe"), "verify.secret", "is required"),
        (scheme("none", secret="env:S"), "verify.secret", "remove secret"),
        (scheme("hmac", secret="env:S"), "verify.header", "is required"),
        (scheme("hmac", secret="env:S", header="X-S", signed="{id}"), "verify.signed", "{body}"),
        (scheme("hmac", secret="env:S", header="X-S", signed="{body}{other}"), "verify.signed", "{body}"),
        (scheme("hmac", secret="env:S", header="X-S", signed="{timestamp}{body}"), "verify.signed", "replay"),
        (scheme("hmac", secret="env:S", header="X-S", signed="{id}{body}"), "verify.id_header", "is required"),
        (scheme("hmac", secret="env:S", header="X S"), "verify.header", "name of a header"),
        (scheme("basic", secret="env:S"), "verify.username", "is required"),
        (scheme("github", secret="env:S", header="X-S"), "verify.header", "has no effect with scheme github"),
        ({**HOOK, "rate": "60 per minute"}, "rate", "60/m"),
        ({**HOOK, "accept": ["xml"]}, "accept[0]", "must be"),
        ({**AFTER, "outcome": "good"}, "outcome", "succeeded"),
        ({**AFTER, "app_id": "=app_id"}, "app_id", "in the app of the ended run"),
    ],
)
def test_a_field_that_cannot_be_meant_is_refused_in_its_place(entry: dict[str, Any], place: str, words: str) -> None:
    specs, findings = read([entry])

    assert specs == ()
    assert findings[0].path == f"triggers[0].{place}".rstrip(".")
    assert words in findings[0].message


def test_a_webhook_that_is_open_to_all_is_reported() -> None:
    [once], [first] = read([scheme("none")])
    [twice], [second] = read([scheme("none", even_in_production=True)])

    assert isinstance(once, WebhookSpec)
    assert isinstance(twice, WebhookSpec)
    assert (once.verify.even_in_production, twice.verify.even_in_production) == (False, True)
    assert "production requires even_in_production: true" in first.message
    assert "production" not in second.message


@pytest.mark.parametrize(
    "entry",
    [
        {**EVERY, "jitter": "0s"},
        {**CHANGE, "debounce": 0, "ordering": "per_document", "pipeline": []},
        {**EVERY, "ui_responses": {}},
    ],
)
def test_what_asks_for_nothing_more_than_is_done_changes_nothing(entry: dict[str, Any]) -> None:
    specs, findings = read([entry])
    assert (len(specs), findings) == (1, ())


@pytest.mark.parametrize("entry", [EVERY, CHANGE, HOOK])
def test_any_trigger_may_answer_for_people(entry: dict[str, Any]) -> None:
    small = {"when": "arguments.amount <= `50` && !payload.urgent && context.tier", "answer": {"verdict": "yes"}}
    answers = {"approve": {"verdict": "yes", "more": [1]}, "Card": {}, "pay": [small, {"answer": {"verdict": "no"}}]}

    [spec], findings = read([{**entry, "ui_responses": answers}])

    assert (spec.ui_responses, findings) == (answers, ())


@pytest.mark.parametrize(
    ("entry", "field"),
    [
        ({**EVERY, "jitter": "a while"}, "jitter"),
        ({**EVERY, "jiter": "30s"}, "jiter"),
        ({**EVERY, "overlap": "buffer"}, "overlap"),
        ({**EVERY, "overlap": ["buffer_one"]}, "overlap"),
        ({**EVERY, "apps": {"collection": "Apps", "feld": "_id"}}, "apps.feld"),
        ({**EVERY, "ui_responses": {"approve": "yes"}}, "ui_responses.approve"),
        ({**EVERY, "ui_responses": ["approve"]}, "ui_responses"),
        ({**EVERY, "ui_responses": {"approve": {"a": [{"b": "=order.b"}]}}}, "ui_responses.approve"),
        ({**EVERY, "ui_responses": {"approve": []}}, "ui_responses.approve"),
        ({**EVERY, "ui_responses": {"approve": ["yes"]}}, "ui_responses.approve[0]"),
        ({**EVERY, "ui_responses": {"approve": [{"when": "arguments.a"}]}}, "ui_responses.approve[0].answer"),
        ({**EVERY, "ui_responses": {"approve": [{"answer": "yes"}]}}, "ui_responses.approve[0].answer"),
        ({**EVERY, "ui_responses": {"approve": [{"answer": {"a": "=b"}}]}}, "ui_responses.approve[0].answer"),
        ({**EVERY, "ui_responses": {"approve": [{"when": None, "answer": {}}]}}, "ui_responses.approve[0].when"),
        ({**EVERY, "ui_responses": {"approve": [{"when": "a >", "answer": {}}]}}, "ui_responses.approve[0].when"),
        ({**EVERY, "ui_responses": {"approve": [{"when": "!vip", "answer": {}}]}}, "ui_responses.approve[0].when"),
        ({**EVERY, "ui_responses": {"approve": [{"wen": "payload", "answer": {}}]}}, "ui_responses.approve[0].wen"),
        ({**EVERY, "ui_responses": {"approve": [{"answer": {}}] * 101}}, "ui_responses.approve"),
        ({**EVERY, "debounce": "5s"}, "debounce"),
        ({**CHANGE, "jitter": "5s"}, "jitter"),
        ({**CHANGE, "ordering": "per_documents"}, "ordering"),
        ({**CHANGE, "pipeline": {"$match": {}}}, "pipeline"),
        (scheme("githb", secret="env:S"), "verify.scheme"),
        (scheme(5, secret="env:S"), "verify.scheme"),  # type: ignore[arg-type]  # as an author may write it
        (scheme("standard"), "verify.secret"),
        (scheme("stripe", secret="whsec_plain"), "verify.secret"),
        ({"type": "webhook", "apps": ["acme"]}, "verify"),
        ({"type": "run_finished"}, "workflow"),
        ({**AFTER, "outcomes": "completed"}, "outcomes"),
    ],
)
def test_a_typo_is_an_error_at_its_place(entry: dict[str, Any], field: str) -> None:
    errors = [finding for finding in findings_of([entry]) if finding[0] == "error"]
    assert errors == [("error", "bad_trigger", FILE, f"triggers[0].{field}")]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ({"type": "webhook", "apps": ["acme"]}, "is required; write verify: …"),
        (
            {**EVERY, "ui_responses": {"approve": "yes"}},
            'write keys and values, or a list of {when: "expression", answer: {…}}',
        ),
        (
            {**EVERY, "ui_responses": {"pay": [{"when": "amount < `5`", "answer": {}}]}},
            "uses amount; available are arguments, payload, context: write arguments.amount",
        ),
        ({**EVERY, "overlap": "sometimes"}, "must be 'skip', 'buffer_one', 'allow' or 'cancel_previous'"),
        ({**EVERY, "apps": "acme"}, "must be a list"),
        ({**EVERY, "description": 5}, "must be text"),
        ({**EVERY, "input": [1]}, "must be a mapping"),
        ({**EVERY, "misfire": "latest"}, "must be a mapping"),
        ({"type": "form", "apps": ["acme"], "inputs": {}}, "is empty; give at least one"),
        ({**CHANGE, "collection": ""}, "is empty; write its name"),
        ({**EVERY, "misfire": {"max": 0}}, "must be at least 1"),
        ({**EVERY, "misfire": {"max": 1001}}, "must be at most 1000"),
        ({**EVERY, "misfire": {"max": "many"}}, "must be a whole number"),
        ({"type": "form", "apps": ["acme"], "inputs": {"a": {"required": "so"}}}, "must be true or false"),
        ({**CHANGE, "pipeline": [{"$match": {}}] * 21}, "has more than 20"),
    ],
)
def test_an_invalid_field_is_reported_with_what_to_write(entry: dict[str, Any], message: str) -> None:
    assert [finding.message for finding in read([entry])[1]] == [message]


def form(**field: Any) -> list[dict[str, Any]]:
    return [{"type": "form", "apps": ["acme"], "inputs": {"f": field}}]


@pytest.mark.parametrize(
    "field",
    [
        {"default": 1},
        {"type": "integer", "default": "1"},
        {"type": "integer", "default": 1.5},
        {"type": "integer", "default": True},
        {"type": "number", "default": False},
        {"type": "boolean", "default": 1},
        {"type": "boolean", "default": "yes"},
        {"type": "string", "default": ["a"]},
        {"enum": ["a", "b"], "default": "c"},
        {"type": "integer", "enum": [True, 2], "default": 1},
    ],
)
def test_a_form_s_default_must_be_an_answer_itself(field: dict[str, Any]) -> None:
    assert findings_of(form(**field)) == [("error", "bad_trigger", FILE, "triggers[0].inputs.f.default")]


@pytest.mark.parametrize(
    "field",
    [
        {},
        {"default": None},
        {"default": "x"},
        {"type": "integer", "default": 0},
        {"type": "number", "default": 1},
        {"type": "number", "default": 0.5, "enum": [0.5, 1]},
        {"type": "boolean", "default": False},
        {"enum": ["a", "b"], "default": "b"},
    ],
)
def test_a_form_s_default_is_kept(field: dict[str, Any]) -> None:
    specs, findings = read(form(**field))
    assert findings == ()
    assert [spec.inputs["f"].default for spec in specs if isinstance(spec, FormSpec)] == [field.get("default")]


KEYS = ["type", "cron", "schedule", "inputs", "verify", "apps", "name", "default", "endpoint", "dedupe"]
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["schedule", "webhook", "form", "x"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.integers(), inner, max_size=5)
    ),
    max_leaves=10,
)  # fmt: skip


@generated(st.lists(junk, max_size=3) | junk)
def test_anything_is_read_or_found(entries: Any) -> None:
    specs, findings = read(entries)
    if isinstance(entries, list):
        assert len(specs) + len({finding.path.split("]")[0] for finding in findings}) >= len(entries)
