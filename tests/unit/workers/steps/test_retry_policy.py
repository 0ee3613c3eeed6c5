"""Retry policy and the table of states: where a run goes after each outcome."""

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.steps.retry_policy import (
    FIRST_DELAY_S,
    MAX_DELAY_S,
    MAX_RETRY_AFTER_S,
    Finish,
    Requeue,
    backoff,
    decide,
)
from workers.store.run import AT_REST, TERMINAL, UNFINISHED, Hold, HoldKind, RunState
from workers.store.run_transitions import ALLOWED, source_states
from workflows.outcome import Outcome, OutcomeKind

PATTERNS = ("DefaultPattern", "Pipeline", "ag2_network")
attempts = st.integers(1, 10_000)
chances = st.floats(0, 1)
waits = st.none() | st.floats(0, 1e9) | st.just(float("inf"))


def decide_move(
    outcome: Outcome, *, pattern: str = "DefaultPattern", attempt: int = 1, max_attempts: int = 5
) -> Finish | Requeue:
    return decide(outcome, pattern=pattern, attempt=attempt, max_attempts=max_attempts, random=lambda: 0.5)


@pytest.mark.parametrize(
    ("kind", "classic", "network"),
    [
        (OutcomeKind.COMPLETED, RunState.SUCCEEDED, RunState.SUCCEEDED),
        (OutcomeKind.MAX_TURNS, RunState.SUCCEEDED, RunState.FAILED),
        (OutcomeKind.NO_TRANSITION, RunState.SUCCEEDED, RunState.FAILED),
        (OutcomeKind.WORKFLOW_FAILED, RunState.FAILED, RunState.FAILED),
        (OutcomeKind.TOOL_ERROR, RunState.FAILED, RunState.FAILED),
        (OutcomeKind.PACKAGE_ERROR, RunState.FAILED, RunState.FAILED),
        (OutcomeKind.LOOP_DETECTED, RunState.FAILED, RunState.FAILED),
        (OutcomeKind.TIMEOUT, RunState.FAILED, RunState.FAILED),
        (OutcomeKind.BUDGET_EXHAUSTED, RunState.FAILED, RunState.FAILED),
        (OutcomeKind.MODEL_ERROR, RunState.FAILED, RunState.FAILED),
        (OutcomeKind.NEEDS_HUMAN, RunState.NEEDS_HUMAN, RunState.NEEDS_HUMAN),
        (OutcomeKind.CANCELLED, RunState.CANCELLED, RunState.CANCELLED),
    ],
)
def test_each_outcome_has_its_state(kind: OutcomeKind, classic: RunState, network: RunState) -> None:
    assert decide_move(Outcome(kind, "why")) == Finish(classic)
    assert decide_move(Outcome(kind, "why"), pattern="Pipeline") == Finish(classic)
    assert decide_move(Outcome(kind, "why"), pattern="ag2_network") == Finish(network)


@given(attempts, attempts)
def test_a_transient_fault_is_tried_again_until_the_attempts_are_used_up(attempt: int, most: int) -> None:
    decision = decide_move(Outcome(OutcomeKind.MODEL_ERROR, "429", transient=True), attempt=attempt, max_attempts=most)

    if attempt < most:
        assert isinstance(decision, Requeue)
        assert decision.counts_as_attempt
    else:
        assert decision == Finish(RunState.PARKED)


@given(attempts)
def test_a_hand_back_is_no_attempt_and_waits_for_nothing(attempt: int) -> None:
    decision = decide_move(Outcome(OutcomeKind.HANDED_BACK, "stopping"), attempt=attempt)
    assert decision == Requeue(timedelta(0), counts_as_attempt=False)


@given(attempts, chances)
def test_a_run_without_budget_room_retries_soon_with_jitter(attempt: int, chance: float) -> None:
    busy = Outcome(OutcomeKind.HANDED_BACK, "others hold it", retry_after_s=4.0)

    decision = decide(busy, pattern="Pipeline", attempt=attempt, max_attempts=1, random=lambda: chance)

    assert isinstance(decision, Requeue)
    assert timedelta(seconds=2) <= decision.delay <= timedelta(seconds=6)
    assert (decision.counts_as_attempt, decision.hold) == (False, None)


def test_what_waits_for_its_budget_is_held_by_it_and_counts_as_no_attempt() -> None:
    until = datetime(2026, 3, 29, 22, tzinfo=UTC)
    spent = Outcome(OutcomeKind.HANDED_BACK, "spent", held_by="budget:app:acme/day/usd", held_until=until)

    hold = Hold(HoldKind.BUDGET, "budget:app:acme/day/usd", until)
    assert decide_move(spent, attempt=5) == Requeue(timedelta(0), counts_as_attempt=False, hold=hold)


@given(st.sampled_from([kind for kind in OutcomeKind if kind is not OutcomeKind.HANDED_BACK]), st.booleans())
def test_what_is_transient_is_tried_again_and_nothing_else(kind: OutcomeKind, transient: bool) -> None:
    decision = decide_move(Outcome(kind, "why", transient=transient))
    assert isinstance(decision, Requeue) is transient


@given(attempts, chances, waits)
def test_a_delay_is_bounded_and_never_less_than_the_server_asked_for(
    attempt: int, chance: float, asked: float | None
) -> None:
    delay = backoff(attempt, random=lambda: chance, retry_after_s=asked).total_seconds()

    assert 0 <= delay <= MAX_DELAY_S + MAX_RETRY_AFTER_S
    assert delay >= min(asked or 0.0, MAX_RETRY_AFTER_S) - 1e-6


@given(attempts)
def test_the_ceiling_grows_with_each_attempt_to_its_bound(attempt: int) -> None:
    ceilings = [backoff(attempt + more, random=lambda: 1.0).total_seconds() for more in (0, 1)]

    assert FIRST_DELAY_S <= ceilings[0] <= ceilings[1] <= MAX_DELAY_S


@pytest.mark.parametrize(
    ("attempt", "ceiling"), [(1, 2.0), (2, 4.0), (3, 8.0), (8, 256.0), (9, 300.0), (10_000, 300.0)]
)
def test_the_ceiling_doubles(attempt: int, ceiling: float) -> None:
    assert backoff(attempt, random=lambda: 1.0) == timedelta(seconds=ceiling)


def test_jitter_is_full() -> None:
    assert backoff(3, random=lambda: 0.0) == timedelta(0)


def test_terminal_states_have_no_way_out_and_all_states_are_in_the_table() -> None:
    assert set(ALLOWED) == set(RunState)
    assert {state for state, targets in ALLOWED.items() if not targets} == TERMINAL
    assert set(RunState) == TERMINAL | UNFINISHED | AT_REST


def test_every_decision_is_a_way_out_of_running() -> None:
    outcomes = [Outcome(kind, "why", transient=transient) for kind in OutcomeKind for transient in (True, False)]
    decisions = [
        decide_move(outcome, pattern=pattern, attempt=attempt)
        for outcome in outcomes
        for pattern in PATTERNS
        for attempt in (1, 5)
    ]
    targets = {each.state if isinstance(each, Finish) else RunState.QUEUED for each in decisions}

    assert targets <= ALLOWED[RunState.RUNNING]
    assert all(RunState.RUNNING.value in source_states(target) for target in targets)


def test_every_state_is_reached_from_queued_and_reaches_an_end() -> None:
    assert reachable_states(RunState.QUEUED) == set(RunState) - {RunState.QUEUED} | {RunState.QUEUED}
    assert all(reachable_states(state) & TERMINAL for state in set(RunState) - TERMINAL)


def reachable_states(start: RunState) -> set[RunState]:
    seen: set[RunState] = set()
    ahead = [start]
    while ahead:
        for target in ALLOWED[ahead.pop()] - seen:
            seen.add(target)
            ahead.append(target)
    return seen


def test_sources_name_the_states_a_write_may_start_from() -> None:
    assert source_states(RunState.RUNNING) == ["queued"]
    assert set(source_states(RunState.CANCELLED)) == {"queued", "running", "needs_human", "parked"}
