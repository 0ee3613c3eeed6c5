"""The timeline: the calls of each turn, and their place in the run's time."""

from datetime import UTC, datetime, timedelta
from typing import Any

from ops.console.run_timeline import MIN_WIDTH_PERCENT, TimelineBar, owner_views

START = datetime(2026, 3, 1, 12, tzinfo=UTC)


def at(seconds: float) -> datetime:
    return START + timedelta(seconds=seconds)


def turn(number: int, agent: str, *, tokens: tuple[int, int] = (100, 10), duration_s: float = 2.0) -> dict[str, Any]:
    return {
        "number": number,
        "agent": agent,
        "text": "",
        "events": [],
        "handoff": None,
        "context_changes": {},
        "tokens": {"input": tokens[0], "output": tokens[1]},
        "duration_s": duration_s,
    }


def call(
    lease: int, number: int, agent: str, *, begun_s: float, tokens: tuple[int, int] = (100, 10), **changes: Any
) -> dict[str, Any]:
    return {
        "_id": f"run_1:{lease}:{number}",
        "agent": agent,
        "model": "gpt",
        "at": at(begun_s),
        "ok": True,
        "input_tokens": tokens[0],
        "output_tokens": tokens[1],
        "cost_nano_usd": 1_000,
        **changes,
    }


def line(token: int, *, begun_s: float, ended_s: float, turns: int) -> dict[str, Any]:
    return {"token": token, "owner": "w", "from": at(begun_s), "until": at(ended_s), "turn": turns, "ended": "x"}


def story(turns: list[dict[str, Any]], history: list[dict[str, Any]], *, state: str = "succeeded") -> dict[str, Any]:
    ends = at(10) if state == "succeeded" else None
    lease = {"token": len(history) + (state == "running")}
    return {
        "turns": turns,
        "history": history,
        "state": state,
        "lease": lease,
        "started_at": START,
        "finished_at": ends,
    }


def test_a_turn_stands_where_its_first_call_began() -> None:
    run_story = story([turn(1, "A"), turn(2, "B", duration_s=5)], [line(1, begun_s=0, ended_s=10, turns=2)])

    [owner] = owner_views(run_story, [call(1, 1, "A", begun_s=1), call(1, 2, "B", begun_s=4)], now=at(60))

    assert owner.bar == TimelineBar(0, 100)
    assert [each.bar for each in owner.turns] == [TimelineBar(10, 20), TimelineBar(40, 50)]
    assert [each.cost_usd for each in owner.turns] == [1e-6, 1e-6]
    assert owner.turns[0].models == ("gpt",)


def test_calls_of_one_agent_in_a_row_are_shared_out_by_their_tokens() -> None:
    turns = [turn(1, "A", tokens=(200, 20)), turn(2, "A")]
    calls = [call(1, number, "A", begun_s=number) for number in (1, 2, 3)]

    [owner] = owner_views(story(turns, [line(1, begun_s=0, ended_s=10, turns=2)]), calls, now=at(60))

    assert [each.cost_usd for each in owner.turns] == [2e-6, 1e-6]


def test_uncommitted_calls_of_a_lost_owner_belong_to_no_turn() -> None:
    turns = [turn(1, "A"), turn(2, "A")]
    history = [line(1, begun_s=0, ended_s=4, turns=1), line(2, begun_s=5, ended_s=10, turns=2)]
    calls = [call(1, 1, "A", begun_s=1), call(1, 2, "A", begun_s=3), call(2, 1, "A", begun_s=6)]

    first, second = owner_views(story(turns, history), calls, now=at(60))

    assert [each.number for each in (*first.turns, *second.turns)] == [1, 2]
    assert second.turns[0].bar == TimelineBar(60, 20)
    assert second.bar == TimelineBar(50, 50)


def test_an_unknown_part_of_a_cost_is_not_shown() -> None:
    turns = [turn(1, "A", tokens=(999, 9)), turn(2, "B")]
    calls = [call(1, 1, "A", begun_s=1), call(1, 2, "B", begun_s=4, cost_nano_usd=None)]

    [owner] = owner_views(story(turns, [line(1, begun_s=0, ended_s=10, turns=2)]), calls, now=at(60))

    assert [each.cost_usd for each in owner.turns] == [None, None]


def test_without_a_ledger_turns_follow_each_other() -> None:
    [owner] = owner_views(
        story([turn(1, "A"), turn(2, "B")], [line(1, begun_s=2, ended_s=10, turns=2)]), [], now=at(60)
    )

    assert [each.bar for each in owner.turns] == [TimelineBar(20, 20), TimelineBar(40, 20)]


def test_the_present_owner_is_listed_and_an_instant_is_visible() -> None:
    running = story([turn(1, "A", duration_s=0)], [], state="running")

    [owner] = owner_views(running, [call(1, 1, "A", begun_s=59.99)], now=at(60))

    assert owner.lease is None
    assert owner.turns[0].bar == TimelineBar(100 - MIN_WIDTH_PERCENT, MIN_WIDTH_PERCENT)
    assert [*owner_views({**running, "state": "queued", "turns": [], "started_at": None}, [], now=at(60))] == []
