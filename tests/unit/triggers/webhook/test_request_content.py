"""Content: each kind of body as the event that expressions see, and what is not taken."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.triggers.property_settings import without_deadline
from triggers.gateway.http_problems import ProblemError
from triggers.webhook import request_content
from workflows.package.trigger_specs.webhook_spec import Verification, WebhookSpec

FORM = {"content-type": "application/x-www-form-urlencoded"}
JSON = {"content-type": "application/json"}
TEXT = {"content-type": "text/plain; charset=utf-8"}
EVENT = {"specversion": "1.0", "id": "A-1", "source": "/shop", "type": "order.paid"}
CE = {f"ce-{name}": value for name, value in EVENT.items()}


def webhook(*accept: str, scheme: str = "github") -> WebhookSpec:
    verify = Verification.model_validate({"scheme": scheme, "secret": "env:KEY"})
    given: dict[str, Any] = {"accept": accept} if accept else {}
    return WebhookSpec(name="paid", apps=("acme",), verify=verify, **given)


EVERY_KIND = webhook("json", "form", "text")


def read(headers: dict[str, str], body: bytes = b"", *, spec: WebhookSpec = EVERY_KIND) -> Any:
    return request_content.parse_body(request_content.declared_content(spec, headers), headers, body)


def refusal_of(headers: dict[str, str], body: bytes = b"", *, spec: WebhookSpec = EVERY_KIND) -> tuple[int, str]:
    with pytest.raises(ProblemError) as problem:
        read(headers, body, spec=spec)
    return problem.value.status, problem.value.detail


def test_json_is_the_event() -> None:
    for kind in ("application/json", "Application/JSON; charset=utf-8", "application/vnd.shop.v2+json"):
        assert read({"content-type": kind}, b'{"n": 1.0}') == {"n": 1.0}


def test_fields_of_a_form_are_an_object() -> None:
    assert read(FORM, b"a=1&b=&c=x+y&a=2&a=3&d=%C3%BC") == {"a": ["1", "2", "3"], "b": "", "c": "x y", "d": "ü"}


def test_json_in_a_field_payload_alone_is_the_event() -> None:
    assert read(FORM, b"payload=%7B%22action%22%3A%22opened%22%7D") == {"action": "opened"}
    assert read(FORM, b"payload=%7B%22a%22%3A1%7D&x=1") == {"payload": '{"a":1}', "x": "1"}
    assert read(FORM, b"payload=no+JSON") == {"payload": "no JSON"}
    assert refusal_of(FORM, b"payload=%7Bbroken") == (400, "the body is not JSON")


def test_text_is_under_its_own_name() -> None:
    assert read(TEXT, "grüß dich\n".encode()) == {"text": "grüß dich\n"}


@pytest.mark.parametrize(
    ("headers", "body"),
    [(JSON, b"{"), (JSON, b'"\xff"'), (FORM, b"a=%ff"), (FORM, b"\xff"), (FORM, b"a=&" * 1_001), (TEXT, b"\xff")],
)
def test_a_body_of_another_type_than_declared_is_a_bad_request(headers: dict[str, str], body: bytes) -> None:
    assert refusal_of(headers, body)[0] == 400


@pytest.mark.parametrize(
    ("accept", "headers", "told"),
    [
        ((), FORM, "send application/json"),
        ((), TEXT, "send application/json"),
        ((), {}, "send application/json"),
        ((), {**JSON, "content-encoding": "gzip"}, "send application/json"),
        (("form", "text"), JSON, "send application/x-www-form-urlencoded or text/plain"),
        (("form",), {"content-type": "application/cloudevents+json"}, "send application/x-www-form-urlencoded"),
        (("json",), {"content-type": "multipart/form-data; boundary=x"}, "send application/json"),
    ],
)
def test_what_the_trigger_does_not_take_is_refused(accept: tuple[str, ...], headers: dict[str, str], told: str) -> None:
    assert refusal_of(headers, spec=webhook(*accept)) == (415, told)


def test_slack_sends_events_as_json_and_commands_as_forms() -> None:
    spec = webhook(scheme="slack")
    assert read(JSON, b"{}", spec=spec) == {}
    assert read(FORM, b"command=%2Fask", spec=spec) == {"command": "/ask"}
    assert refusal_of(FORM, spec=webhook("json", scheme="slack"))[0] == 415


def test_a_structured_cloud_event_is_taken_as_it_is() -> None:
    event = {**EVENT, "data": {"order": 7}, "traceparent": "00-x"}
    assert read({"content-type": "application/cloudevents+json; charset=utf-8"}, json.dumps(event).encode()) == event


@pytest.mark.parametrize(
    ("headers", "body", "data"),
    [
        (JSON, b'{"order": 7}', {"order": 7}),
        (JSON, b"[1]", [1]),
        (FORM, b"order=7", {"order": "7"}),
        (TEXT, b"order 7", "order 7"),
    ],
)
def test_a_binary_cloud_event_gets_the_same_shape(headers: dict[str, str], body: bytes, data: Any) -> None:
    extra = {"ce-subject": "Z%C3%BCrich%20%22x%22", "ce-traceparent": "00-x", "ce-data": "no attribute", "ce-_": "x"}

    event = read({**headers, **CE, **extra}, body)

    more = {"subject": 'Zürich "x"', "traceparent": "00-x", "datacontenttype": headers["content-type"]}
    assert event == {**EVENT, **more, "data": data}


def test_a_binary_cloud_event_may_have_no_data() -> None:
    assert read({**CE, "ce-data": "no attribute"}) == EVENT
    assert refusal_of(CE, b"something")[0] == 400


@pytest.mark.parametrize("missing", ["specversion", "id", "source", "type"])
def test_a_cloud_event_without_what_it_needs_is_a_bad_request(missing: str) -> None:
    event = {name: value for name, value in EVENT.items() if name != missing}
    told = (400, f"the CloudEvent needs {missing}: text of at most 2000 characters")

    assert refusal_of({**JSON, **{f"ce-{name}": value for name, value in event.items()}}, b"{}") == told
    for changed in (event, {**event, missing: ""}, {**event, missing: 7}, {**event, missing: "x" * 2_001}):
        assert refusal_of({"content-type": "application/cloudevents+json"}, json.dumps(changed).encode()) == told


@pytest.mark.parametrize(
    "change", [{"specversion": "0.3"}, {"source": "a b"}, {"source": "a\nb"}, {"id": "%ff"}, {"subject": "%fc"}]
)
def test_other_cloud_events_are_a_bad_request(change: dict[str, str]) -> None:
    headers = {**JSON, **CE, **{f"ce-{name}": value for name, value in change.items()}}
    assert refusal_of(headers, b"{}")[0] == 400


def test_a_list_is_no_cloud_event_and_a_batch_is_refused() -> None:
    assert refusal_of({"content-type": "application/cloudevents+json"}, b"[]")[0] == 400
    told = "batches of CloudEvents are not taken; send each event by itself"
    assert refusal_of({"content-type": "application/cloudevents-batch+json"}, b"[]") == (415, told)


NAMES = st.sampled_from(["content-type", "content-encoding", "ce-id", "ce-source", "ce-type", "ce-specversion", "ce-x"])
KINDS = ["application/json", "application/x-www-form-urlencoded", "text/plain", "application/cloudevents+json", "1.0"]
VALUES = st.one_of(st.sampled_from(KINDS), st.text(st.characters(max_codepoint=255)))


@without_deadline
@given(headers=st.dictionaries(NAMES, VALUES), body=st.one_of(st.binary(), st.text().map(str.encode)))
def test_anything_at_all_is_an_event_or_a_problem(headers: dict[str, str], body: bytes) -> None:
    try:
        read(headers, body)
    except ProblemError as problem:
        assert problem.status in (400, 415)  # noqa: PT017 -- either is right
