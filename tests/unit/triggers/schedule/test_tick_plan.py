"""The plan of a tick against an oracle that visits every nominal time one by one."""

import time
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from triggers.schedule.tick_plan import MAX_COUNTED, MAX_FIRED_AT_ONCE, TickPlan, nominal_times, plan_tick
from workflows.package.trigger_specs.schedule_spec import Misfire, ScheduleSpec

START = datetime(2026, 3, 28, 22, 0, tzinfo=UTC)  # Europe's clocks change three hours later
POLICIES = ("skip", "latest", "all")


def spec_of(policy: str = "latest", grace_s: float = 60, maximum: int = 10, **clock: Any) -> ScheduleSpec:
    grace_s = max(grace_s, 1) if policy == "skip" else grace_s
    misfire = Misfire.model_validate({"grace": grace_s, "policy": policy, "max": maximum})
    return ScheduleSpec(name="s", apps=("acme",), misfire=misfire, **clock)


def next_nominal(spec: ScheduleSpec, *, after: datetime) -> datetime:
    return next(nominal_times(spec, after=after))


def next_of(plan: TickPlan) -> datetime:
    assert plan.next_at is not None
    return plan.next_at


clocks: st.SearchStrategy[dict[str, Any]] = st.one_of(
    st.builds(dict, every=st.sampled_from(["1s", "7s", "90s", "1h", "1.5s", "1001ms"]).map(str)),
    st.builds(
        dict,
        cron=st.sampled_from(
            ["* * * * *", "*/7 * * * *", "30 2 * * *", "15 1,2 * * *", "*/20 * * * * *", "0 */3 * * *", "@daily"]
        ),
        timezone=st.sampled_from(["UTC", "Europe/London", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe"]),
    ),
)
ends = st.none() | st.integers(1, 12_000).map(lambda seconds: START + timedelta(seconds=seconds))
specs = st.builds(
    lambda clock, end, policy, grace_s, maximum: spec_of(policy, grace_s, maximum, end=end, **clock),
    clocks,
    ends,
    st.sampled_from(POLICIES),
    st.sampled_from([0, 1, 5, 60, 3600]),
    st.integers(1, 12),
)


def oracle(spec: ScheduleSpec, due: datetime, now: datetime) -> tuple[list[datetime], int]:
    """What fires, and how many are missed, by looking at each nominal time."""
    since_due = nominal_times(spec, after=due - timedelta(milliseconds=1))
    reached = list(takewhile(lambda nominal: nominal <= now, since_due))
    late = [each for each in reached if now - each > spec.misfire.grace]
    kept = {"skip": [], "latest": late[-1:], "all": late[-spec.misfire.max :]}[spec.misfire.policy]
    return kept + reached[len(late) :], len(late) - len(kept)


@pytest.mark.design("D4-86")
@given(spec=specs, start_s=st.integers(0, 7200), outage_s=st.integers(0, 9000), milliseconds=st.integers(0, 999))
def test_a_plan_equals_the_oracle(spec: ScheduleSpec, start_s: int, outage_s: int, milliseconds: int) -> None:
    due = next(nominal_times(spec, after=START + timedelta(seconds=start_s)), None)
    assume(due is not None)
    assert due is not None
    now = due + timedelta(seconds=outage_s, milliseconds=milliseconds)

    plan = plan_tick(spec, due=due, now=now)

    fire, missed = oracle(spec, due, now)
    expected = fire[: plan.late + MAX_FIRED_AT_ONCE]
    assert list(plan.fire_times) == expected
    assert (plan.missed.count if plan.missed else 0) == min(missed, MAX_COUNTED if spec.cron else missed)
    assert plan.next_at == next(nominal_times(spec, after=now if expected == fire else expected[-1]), None)


@given(spec=specs, pauses=st.lists(st.integers(1, 4000), max_size=12))
def test_over_a_simulated_day_each_nominal_time_fires_or_is_missed_once(spec: ScheduleSpec, pauses: list[int]) -> None:
    due = first = next(nominal_times(spec, after=START), None)
    assume(first is not None)
    assert first is not None
    now = START
    fired: list[datetime] = []
    missed = 0
    exact = True
    for pause in pauses:
        now += timedelta(seconds=pause)
        while due is not None and due <= now:
            plan = plan_tick(spec, due=due, now=now)
            fired += plan.fire_times
            missed += plan.missed.count if plan.missed else 0
            exact = exact and (plan.missed is None or plan.missed.exact)
            due = plan.next_at

    nominal = []
    for each in nominal_times(spec, after=first - timedelta(milliseconds=1)):
        if each > now:
            break
        nominal.append(each)
    assert fired == sorted(set(fired))
    assert set(fired) <= set(nominal)
    assert not exact or len(fired) + missed == len(nominal)


@given(clock=clocks, offset_ms=st.integers(0, 6 * 3600 * 1000))
def test_nominal_times_do_not_depend_on_caller_or_time(clock: dict[str, Any], offset_ms: int) -> None:
    spec = spec_of(**clock)
    asked = START + timedelta(milliseconds=offset_ms)
    known = []
    for each in nominal_times(spec, after=START):
        if each > asked:
            known.append(each)
        if len(known) == 3:
            break

    times = nominal_times(spec, after=asked)

    assert [next(times) for _ in known] == known


def test_a_time_at_the_end_of_a_schedule_is_its_last() -> None:
    spec = spec_of(every="1h", end=START + timedelta(hours=2))

    assert list(nominal_times(spec, after=START)) == [START + timedelta(hours=1), START + timedelta(hours=2)]


def test_nothing_fires_before_its_time() -> None:
    due = START + timedelta(hours=1)

    assert plan_tick(spec_of(every="1h"), due=due, now=START) == TickPlan((), 0, None, due)


def test_a_tick_as_late_as_the_grace_is_on_time_and_a_later_one_is_not() -> None:
    spec = spec_of("skip", 60, every="1h")

    on_time = plan_tick(spec, due=START, now=START + timedelta(seconds=60))
    late = plan_tick(spec, due=START, now=START + timedelta(seconds=60, milliseconds=1))

    assert on_time.fire_times == (START,)
    assert late.fire_times == ()
    assert late.missed is not None
    assert late.missed.count == 1


def test_an_interval_counts_from_the_epoch_whenever_a_scheduler_starts() -> None:
    assert next_nominal(spec_of(every="15m"), after=START + timedelta(minutes=7)) == START + timedelta(minutes=15)


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("clock", [{"every": "1s"}, {"cron": "* * * * * *"}, {"cron": "* * * * * 1"}])
def test_ten_years_of_downtime_cost_no_more_than_a_moment(policy: str, clock: dict[str, Any]) -> None:
    spec = spec_of(policy, 5, 1000, **clock)
    due = next_nominal(spec, after=START)
    now = due + timedelta(days=3653)

    began = time.process_time()
    plan = plan_tick(spec, due=due, now=now)

    assert time.process_time() - began < 5
    assert len(plan.fire_times) <= 1006
    assert plan.missed is not None
    assert next_of(plan) > now


def test_years_of_missed_seconds_are_counted_exactly_for_an_interval() -> None:
    spec = spec_of("latest", 0, every="1s")
    now = START + timedelta(days=3653)

    plan = plan_tick(spec, due=START, now=now)

    assert plan.fire_times == (now - timedelta(seconds=1), now)
    assert plan.missed is not None
    assert plan.missed.count == 3653 * 86400 - 1


def test_a_long_grace_is_worked_off_in_portions_without_a_loss() -> None:
    spec = spec_of("skip", 86400, every="1s")
    now = START + timedelta(seconds=2500)

    first = plan_tick(spec, due=START, now=now)
    second = plan_tick(spec, due=next_of(first), now=now)
    third = plan_tick(spec, due=next_of(second), now=now)

    fired = [*first.fire_times, *second.fire_times, *third.fire_times]
    assert fired == [START + timedelta(seconds=number) for number in range(2501)]
