"""Jitter: spread, bounded, and the same in each process."""

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from triggers.schedule.tick_plan import next_nominal
from triggers.schedule.tick_requests import jittered_start
from workflows.package.trigger_specs.schedule_spec import ScheduleSpec

NOMINAL = datetime(2026, 3, 29, 0, 0, tzinfo=UTC)


def spec_of(jitter_s: float, **clock: Any) -> ScheduleSpec:
    return ScheduleSpec.model_validate({"name": "s", "apps": ["acme"], "jitter": jitter_s, **clock})


@given(
    clock=st.sampled_from([{"every": "1s"}, {"every": "90s"}, {"cron": "*/5 * * * *"}, {"cron": "30 2 * * *"}]),
    jitter_s=st.sampled_from([0.001, 0.5, 1, 60, 86400]),
    app_id=st.text(max_size=12),
    number=st.integers(0, 1000),
)
def test_a_start_is_within_the_jitter_and_before_the_next_nominal_time(
    clock: dict[str, Any], jitter_s: float, app_id: str, number: int
) -> None:
    spec = spec_of(jitter_s, **clock)
    nominal = next_nominal(spec, after=NOMINAL + number * timedelta(minutes=7))
    assert nominal is not None

    start = jittered_start(spec, "Digest/s", app_id, nominal)

    following = next_nominal(spec, after=nominal)
    assert start is not None
    assert following is not None
    assert nominal <= start <= nominal + timedelta(seconds=jitter_s)
    assert start < following
    assert start.microsecond % 1000 == 0
    assert start == jittered_start(spec, "Digest/s", app_id, nominal)


def test_apps_and_schedules_are_spread_over_the_whole_of_it() -> None:
    spec = spec_of(3600, cron="0 0 * * *")

    starts = [jittered_start(spec, f"Digest/s{number % 2}", f"app{number}", NOMINAL) for number in range(1000)]

    delays = sorted((start - NOMINAL).total_seconds() for start in starts if start is not None)
    assert len(set(delays)) > 990
    assert delays[0] < 60
    assert delays[-1] > 3540
    assert abs(delays[500] - 1800) < 200


def test_without_jitter_a_run_may_start_at_once() -> None:
    assert jittered_start(spec_of(0, every="1m"), "Digest/s", "acme", NOMINAL) is None


def test_a_moment_has_all_of_its_jitter() -> None:
    spec = spec_of(3600, at=NOMINAL)

    starts = {jittered_start(spec, "Digest/s", f"app{number}", NOMINAL) for number in range(100)}

    assert max(start for start in starts if start is not None) > NOMINAL + timedelta(minutes=50)
