"""Spans: failed, cut off, with and without content, and at no cost when off."""

import asyncio
from collections.abc import Coroutine, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

import pytest
from opentelemetry.sdk.trace.sampling import DEFAULT_ON, ParentBased

from accounting.budgets.reservation_types import PlannedCall
from accounting.usage import ModelCall, Tokens
from tests.unit.workers.tracing.span_bench import SECRET, SpanBench, span_bench
from triggers.acceptance import Acceptance
from workers.store.run import Accepted, Claim, RunRequest, RunState, TriggerEvent
from workers.store.run_store import RunStore
from workers.tracing.span_ids import parse_traceparent, span_ids_of
from workers.tracing.tracing import IncomingRequest, bind_request
from workflows.outcome import Outcome, OutcomeError, OutcomeKind
from workflows.spans import NO_SPANS

CALLERS = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-0"
NOW = datetime(2026, 3, 1, tzinfo=UTC)
REQUEST = RunRequest("acme", "Digest", TriggerEvent("webhook", "hook", "1", fired_at=NOW))
RUN: Mapping[str, Any] = {
    "_id": "run_1",
    "app_id": "acme",
    "workflow": "Digest",
    "attempt": 1,
    "trigger": {"type": "webhook", "name": "hook"},
}


@pytest.fixture
def traced() -> Iterator[SpanBench]:
    made = span_bench()
    yield made
    made.tracing.close()


def claim(token: int = 1, **run: Any) -> Claim:
    return Claim("run_1", "host:1:a", token, {**RUN, **run})


@pytest.mark.parametrize(
    ("kind", "state", "error", "failed"),
    [
        (OutcomeKind.COMPLETED, RunState.SUCCEEDED, None, None),
        (OutcomeKind.MODEL_ERROR, RunState.QUEUED, "ModelError", "ModelError"),
        (OutcomeKind.LOOP_DETECTED, RunState.FAILED, None, "loop_detected"),
        (OutcomeKind.HANDED_BACK, RunState.QUEUED, None, None),
        (OutcomeKind.NEEDS_HUMAN, RunState.NEEDS_HUMAN, "NeedsHuman", None),
        (OutcomeKind.CANCELLED, RunState.CANCELLED, None, None),
        (OutcomeKind.MODEL_ERROR, RunState.PARKED, "ModelError", "ModelError"),
    ],
)
def test_only_what_went_wrong_is_a_failed_run(
    traced: SpanBench, kind: OutcomeKind, state: RunState, error: str | None, failed: str | None
) -> None:
    with traced.tracing.run_span(claim()):
        failure = None if error is None else OutcomeError(error, SECRET)
        traced.tracing.record_outcome(claim(), Outcome(kind, SECRET, failure), state)

    attributes, is_failed = traced.only_span("invoke_workflow Digest")
    assert (attributes["unattended.outcome"], attributes["unattended.state"]) == (kind.value, state.value)
    assert (attributes.get("error.type"), is_failed) == (failed, failed is not None)
    assert "unattended.cut_off" not in attributes
    assert SECRET not in str(traced.spans[0].to_json())


def test_an_abandoned_run_is_cut_off_and_its_next_owner_links_to_it(traced: SpanBench) -> None:
    with traced.tracing.run_span(claim(1)):
        pass
    with traced.tracing.run_span(claim(3, history=[{"token": 1}])):
        pass

    first, second = traced.spans
    assert dict(first.attributes or {})["unattended.cut_off"] is True
    [link] = second.links
    assert (link.context.span_id, dict(link.attributes or {})) == (
        first.context.span_id,
        {"unattended.link": "resumes"},
    )
    assert second.context.trace_id == first.context.trace_id
    assert second.context.span_id != first.context.span_id


class TeapotError(Exception):
    pass


@pytest.mark.parametrize(
    ("error", "attribute", "failed"),
    [
        (TeapotError(SECRET), ("error.type", "TeapotError"), True),
        (asyncio.CancelledError(), ("unattended.cut_off", True), False),
    ],
)
def test_a_turn_that_raises_records_its_type_alone(
    traced: SpanBench, error: BaseException, attribute: tuple[str, Any], failed: bool
) -> None:
    with traced.tracing.run_span(claim()), suppress(type(error)), traced.tracing.chat_spans(claim()).turn("A", 1):
        raise error

    attributes, is_failed = traced.only_span("invoke_agent A")
    assert attributes.items() >= {attribute}
    assert is_failed is failed
    assert all(not span.events for span in traced.spans)


def test_a_type_that_is_named_after_a_secret_is_hidden(traced: SpanBench) -> None:
    named = type(SECRET, (Exception,), {})
    with traced.tracing.run_span(claim()), suppress(named), traced.tracing.chat_spans(claim()).turn("A", 1):
        raise named

    assert traced.only_span("invoke_agent A")[0]["error.type"] == "(hidden)"


async def test_a_tool_call_that_is_closed_where_it_did_not_begin_stays_closed(traced: SpanBench) -> None:
    """The garbage collector closes generators that a loop has abandoned."""
    left: list[Coroutine[Any, Any, Any]] = []

    async def call() -> None:
        with traced.tracing.run_span(claim()), traced.tracing.chat_spans(claim()).tool_call("look", "{}"):
            await asyncio.Event().wait()

    async def begin() -> None:
        left.append(call())
        left[0].send(None)

    await asyncio.create_task(begin())
    with pytest.raises(GeneratorExit):
        left[0].throw(GeneratorExit)

    assert [span.name for span in traced.spans] == ["execute_tool look", "invoke_workflow Digest"]


@pytest.mark.parametrize(("kind", "failed"), [(OutcomeKind.NEEDS_HUMAN, False), (OutcomeKind.TOOL_ERROR, True)])
def test_to_wait_for_a_person_is_no_failed_turn(traced: SpanBench, kind: OutcomeKind, failed: bool) -> None:
    with traced.tracing.run_span(claim()), traced.tracing.chat_spans(claim()).turn("A", 1) as turn:
        turn.record_chat_end(Outcome(kind, SECRET))

    assert traced.only_span("invoke_agent A")[1] is failed


def run_one_turn(made: SpanBench) -> None:
    planned = PlannedCall(1, "A", "bedrock", "m", prompt_characters=1)
    messages = [{"role": "user", "parts": [{"type": "text", "content": f"{SECRET} {'x' * 20_000}"}]}]
    with made.tracing.run_span(claim()):
        spans = made.tracing.chat_spans(claim())
        with spans.turn("A", 1):
            call = spans.model_call(planned, lambda: messages)
            done = ModelCall(1, "A", "bedrock", "m", Tokens(input=3), "reported", True, NOW, 0.1)
            call.end(done, model=None, reply=lambda: messages)
            with spans.tool_call("look", '{"at": "canary \\"7f3a\\" word"}') as tool:
                tool.record_result(SECRET)


def test_content_is_not_even_asked_for_unless_it_is_wanted(traced: SpanBench) -> None:
    run_one_turn(traced)

    shown = {name for span in traced.spans for name in span.attributes or {}}
    assert not shown & {"gen_ai.input.messages", "gen_ai.output.messages"}
    assert not {name for name in shown if name.startswith("gen_ai.tool.call")}
    assert traced.only_span("chat m")[0]["gen_ai.provider.name"] == "aws.bedrock"


def test_content_that_is_wanted_is_without_hidden_values_and_short() -> None:
    made = span_bench(with_content=True)
    run_one_turn(made)

    chat, tool = made.only_span("chat m")[0], made.only_span("execute_tool look")[0]
    for name in ("gen_ai.input.messages", "gen_ai.output.messages"):
        assert chat[name].startswith('[{"role": "user", "parts": [{"type": "text", "content": "(hidden) xxx')
        assert 8_000 < len(chat[name]) < 8_100
    assert (tool["gen_ai.tool.call.arguments"], tool["gen_ai.tool.call.result"]) == ('{"at": "(hidden)"}', "(hidden)")
    made.tracing.close()


def test_a_run_whose_caller_is_not_sampled_has_no_spans() -> None:
    made = span_bench(sampler=ParentBased(DEFAULT_ON))
    unsampled = claim(traceparent=f"{CALLERS}0")
    with made.tracing.run_span(unsampled):
        assert made.tracing.chat_spans(unsampled) is NO_SPANS
        made.tracing.record_outcome(unsampled, Outcome(OutcomeKind.COMPLETED, ""), RunState.SUCCEEDED)

    assert made.spans == []
    made.tracing.close()


@dataclass
class UnstorableRuns(RunStore):
    answer: Accepted | None = None
    inserted: RunRequest | None = None

    async def insert(self, request: RunRequest) -> Accepted:
        self.inserted = request
        if self.answer is None:
            raise ConnectionError(SECRET)
        return self.answer

    def send(self, run_id: str) -> None: ...


@pytest.mark.parametrize(
    ("role", "kind"), [("gateway", "SERVER"), ("watcher", "CONSUMER"), ("scheduler", "INTERNAL"), ("cli", "PRODUCER")]
)
async def test_an_accepted_run_carries_the_span_of_its_trigger(role: str, kind: str) -> None:
    made, desk = span_bench(role=role), UnstorableRuns(Accepted("run_1", created=True))

    await Acceptance(desk, desk, made.tracing).accept(REQUEST)

    [span] = made.spans
    assert (span.name, span.kind.name) == ("trigger Digest/hook", kind)
    assert desk.inserted is not None
    assert desk.inserted == replace(REQUEST, traceparent=desk.inserted.traceparent)
    carried = parse_traceparent(desk.inserted.traceparent)
    assert carried is not None
    assert (carried.trace_id, carried.span_id) == (span.context.trace_id, span.context.span_id)
    assert dict(span.attributes or {})["unattended.accepted"] == "created"
    made.tracing.close()


async def test_the_callers_trace_goes_on_from_when_the_call_came(traced: SpanBench) -> None:
    desk = UnstorableRuns(Accepted("run_1", created=False))

    with bind_request(IncomingRequest(f"{CALLERS}1", began_ns=1_000)):
        await Acceptance(desk, desk, traced.tracing).accept(REQUEST)

    [span] = traced.spans
    assert span.parent is not None
    assert (span.parent.trace_id, span.start_time) == (
        span_ids_of({"_id": "", "traceparent": f"{CALLERS}1"}, token=1).trace_id,
        1_000,
    )
    assert dict(span.attributes or {})["unattended.accepted"] == "duplicate"


async def test_an_unstorable_request_records_the_errors_type_alone(traced: SpanBench) -> None:
    with pytest.raises(ConnectionError):
        await Acceptance(UnstorableRuns(), UnstorableRuns(), traced.tracing).accept(REQUEST)

    attributes, failed = traced.only_span("trigger Digest/hook")
    assert (attributes["error.type"], failed) == ("ConnectionError", True)
    assert SECRET not in str(traced.spans[0].to_json())
