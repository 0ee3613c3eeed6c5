"""Span ids: parsed from the header of a caller, or computed from a run."""

import pytest

from workers.tracing.span_ids import SpanIds, parse_traceparent, previous_owner_ids, span_ids_of

TRACE, SPAN = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


@pytest.mark.parametrize(
    ("header", "sampled"),
    [(f"00-{TRACE}-{SPAN}-01", True), (f"00-{TRACE}-{SPAN}-00", False), (f"cc-{TRACE}-{SPAN}-03-x", True)],
)
def test_a_callers_trace_is_read(header: str, sampled: bool) -> None:
    assert parse_traceparent(header) == SpanIds(int(TRACE, 16), int(SPAN, 16), sampled)


@pytest.mark.parametrize(
    "header",
    [
        None,
        "",
        "00",
        f"ff-{TRACE}-{SPAN}-01",
        f"00-{TRACE.upper()}-{SPAN}-01",
        f"00-{'0' * 32}-{SPAN}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{SPAN}",
        f" 00-{TRACE}-{SPAN}-01",
        f"00-{TRACE}-{SPAN}-01x",
        "00-" + "a" * 100_000,
    ],
)
def test_what_is_no_traceparent_begins_a_trace_of_its_own(header: str | None) -> None:
    assert parse_traceparent(header) is None


def test_ids_are_written_as_they_are_read() -> None:
    header = f"00-{TRACE}-{SPAN}-01"
    ids = parse_traceparent(header)

    assert ids is not None
    assert ids.as_traceparent() == header


def test_each_owner_of_a_run_has_a_span_of_its_own_in_the_runs_trace() -> None:
    run = {"_id": "run_1", "traceparent": f"00-{TRACE}-{SPAN}-01"}
    first, second = span_ids_of(run, token=1), span_ids_of(run, token=2)

    assert first.trace_id == second.trace_id == int(TRACE, 16)
    assert len({first.span_id, second.span_id, int(SPAN, 16)}) == 3
    assert span_ids_of(run, token=1) == first


def test_runs_without_a_trace_have_one_each() -> None:
    one, other = span_ids_of({"_id": "run_1"}, token=1), span_ids_of({"_id": "run_2"}, token=1)

    assert one.trace_id != other.trace_id
    assert one.sampled
    assert one.trace_id.bit_length() <= 128
    assert one.span_id.bit_length() <= 64


def test_the_former_owner_is_the_last_one_that_executed_the_run() -> None:
    run = {"_id": "run_1", "history": [{"token": 1}, {"token": 4}]}

    assert previous_owner_ids(run) == span_ids_of(run, token=4)
    assert previous_owner_ids({"_id": "run_1", "history": []}) is None
