"""How often one document may start runs of one trigger."""

from datetime import UTC, datetime, timedelta

from triggers.change_stream.loop_guard import LoopGuards, Verdict
from workflows.package.trigger_specs.change_spec import LoopGuard

START = datetime(2026, 1, 1, tzinfo=UTC)
LIMIT = LoopGuard.model_validate({"max": 3, "per": "60s"})
GO, LOOP, SAID = Verdict.GO, Verdict.LOOP, Verdict.LOOP_REPORTED


def check_all(guards: LoopGuards, *moments: tuple[int, float], document: str = "1") -> list[Verdict]:
    """Events by their number in the stream, and when they happened."""
    key, verdicts = ("Orders/paid", document), []
    for number, second in moments:
        event_id, happened = f"82{number:06d}", START + timedelta(seconds=second)
        verdicts.append(guards.judge(key, LIMIT, event_id=event_id, event_time=happened))
        if verdicts[-1] is GO:
            guards.count_start(key, event_id=event_id, event_time=happened)
    return verdicts


def test_more_than_the_limit_in_the_window_is_a_loop_reported_once() -> None:
    assert check_all(LoopGuards(), *((n, n) for n in range(6))) == [GO, GO, GO, LOOP, SAID, SAID]


def test_the_window_moves_on_with_the_changes_and_reports_again() -> None:
    guards = LoopGuards()
    check_all(guards, *((n, 0) for n in range(5)))

    assert check_all(guards, (9, 59), (10, 60), (11, 60), (12, 60), (13, 60)) == [SAID, GO, GO, GO, LOOP]


def test_other_documents_are_counted_by_themselves() -> None:
    guards = LoopGuards()
    check_all(guards, *((n, 0) for n in range(4)))

    assert check_all(guards, (9, 0), document="2") == [GO]


def test_what_is_read_again_is_judged_as_before() -> None:
    guards = LoopGuards()
    first = check_all(guards, *((n, n) for n in range(5)))

    again = check_all(guards, *((n, n) for n in range(5)))

    assert first[:3] == again[:3] == [GO, GO, GO]
    assert GO not in again[3:]


def test_a_stream_that_is_set_back_before_what_is_remembered_begins_anew() -> None:
    guards = LoopGuards()
    check_all(guards, *((100 + n, 1000 + n) for n in range(4)))

    assert check_all(guards, *((n, n) for n in range(4))) == [GO, GO, GO, LOOP]


def test_memory_is_bounded_by_documents_and_by_events() -> None:
    guards = LoopGuards(max_documents=5, max_events=9)
    for document in range(50):
        check_all(guards, *((n, n) for n in range(3)), document=str(document))

    assert len(guards._windows) <= 5
    assert sum(len(window.starts) for window in guards._windows.values()) == guards._events <= 9
