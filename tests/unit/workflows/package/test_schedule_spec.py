"""The clock fields of a schedule."""

from typing import Any

import pytest
from pydantic import ValidationError

from workflows.package.trigger_specs.schedule_spec import ScheduleSpec
from workflows.package.trigger_specs.spec_problems import list_problems


@pytest.mark.parametrize(
    ("clock", "place", "words"),
    [
        ({"at": "0001-01-01T00:00", "timezone": "Asia/Tokyo"}, "at", "in the years"),
        ({"every": "1h", "start": "9999-12-31T23:00", "timezone": "America/New_York"}, "start", "in the years"),
        ({"every": "1h", "end": "1969-12-31"}, "end", "in the years"),
        ({"every": "1h", "start": "2026-02-01", "end": "2026-01-01"}, "end", "after start"),
        ({"at": "2026-01-01", "start": "2026-02-01"}, "at", "never fires"),
        ({"at": "2026-03-01", "end": "2026-02-01"}, "at", "never fires"),
        ({"cron": "0 0 30 2 *"}, "cron", "can never fire"),
    ],
)
def test_a_clock_that_never_fires_or_leaves_the_calendar_is_refused(
    clock: dict[str, Any], place: str, words: str
) -> None:
    with pytest.raises(ValidationError) as refused:
        ScheduleSpec.model_validate({"name": "s", "apps": ["acme"], **clock})

    [problem] = list_problems(refused.value)
    assert problem.place == place
    assert words in problem.message
