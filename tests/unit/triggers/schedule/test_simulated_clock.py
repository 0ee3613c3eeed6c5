"""A scheduler's decisions on a simulated clock: random crons, zones, outages, bounds and policies, against an oracle
that knows every nominal time from looking at every minute."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workflows.package.cron_oracle import CHANGES, MINUTE, at, crons, oracle
from triggers.schedule.tick_plan import MAX_COUNTED, next_nominal, plan_tick
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

BEFORE = timedelta(hours=40)
AFTER = timedelta(hours=50)


@dataclass(frozen=True)
class Decisions:
    fired: list[datetime]
    missed: list[tuple[int, str]]


@st.composite
def bounds(draw: st.DrawFn, middle: datetime) -> dict[str, datetime]:
    start = draw(st.none() | st.integers(-40 * 60, 0).map(lambda minutes: middle + minutes * MINUTE))
    end = draw(st.none() | st.integers(1, 40 * 60).map(lambda minutes: middle + minutes * MINUTE))
    return {name: time for name, time in (("start", start), ("end", end)) if time is not None}


def expected_decisions(spec: ScheduleSpec, nominal: list[datetime], check_times: list[datetime]) -> Decisions:
    """By the words of the policy: what is older than the grace when it is seen is late."""
    fired: list[datetime] = []
    missed: list[tuple[int, str]] = []
    reason = {"skip": "late", "latest": "superseded", "all": "over_max"}[spec.misfire.policy]
    kept = {"skip": 0, "latest": 1, "all": spec.misfire.max}[spec.misfire.policy]
    for seen_before, now in pairwise(check_times):
        due = [each for each in nominal if seen_before < each <= now]
        late = [each for each in due if now - each > spec.misfire.grace]
        made_up_for = late[len(late) - min(kept, len(late)) :]
        fired += made_up_for + due[len(late) :]
        if len(late) > len(made_up_for):
            missed.append((len(late) - len(made_up_for), reason))
    return Decisions(fired, missed)


def actual_decisions(spec: ScheduleSpec, check_times: list[datetime]) -> Decisions:
    fired: list[datetime] = []
    missed: list[tuple[int, str]] = []
    due = next_nominal(spec, after=check_times[0])
    for now in check_times[1:]:
        while due is not None and due <= now:
            plan = plan_tick(spec, due=due, now=now)
            fired += plan.fire_times
            if plan.missed is not None:
                missed.append((plan.missed.count, plan.missed.reason))
            due = plan.next_at
    return Decisions(fired, missed)


@given(data=st.data(), change=st.sampled_from(CHANGES), cron=crons)
def test_fired_and_missed_times_follow_the_policy(data: st.DataObject, change: tuple[str, str], cron: str) -> None:
    policy = data.draw(st.sampled_from(["skip", "latest", "all"]), label="policy")
    misfire: dict[str, Any] = {
        "grace": data.draw(st.sampled_from([1 if policy == "skip" else 0, 1, 60, 600, 7200]), label="grace"),
        "policy": policy,
        "max": data.draw(st.integers(1, 12), label="max"),
    }
    bound = data.draw(bounds(at(change)), label="bounds")
    spec = ScheduleSpec.model_validate(
        {"name": "s", "cron": cron, "timezone": change[0], "misfire": misfire, "apps": ["acme"], **bound}
    )
    pauses = data.draw(st.lists(st.integers(1, 20 * 3600), min_size=1, max_size=10), label="seconds between looks")
    looks = [at(change) - BEFORE]
    for pause in pauses:
        looks.append(min(looks[-1] + timedelta(seconds=pause), at(change) + AFTER))

    nominal = [
        each
        for each in oracle(cron, change)
        if bound.get("start", each) <= each <= bound.get("end", each) and each > looks[0]
    ]

    wanted, got = expected_decisions(spec, nominal, looks), actual_decisions(spec, looks)
    assert got.fired == wanted.fired
    assert got.missed == [(min(count, MAX_COUNTED), reason) for count, reason in wanted.missed]
