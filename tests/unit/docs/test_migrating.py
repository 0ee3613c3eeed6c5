"""docs/migrating-*.md: what stands side by side means the same, and its YAML is a trigger without a finding."""

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from pathlib import Path
from typing import Any

import pytest
import yaml
from celery.schedules import crontab

from tests.unit.docs.test_docs import ROOT, blocks, read
from workflows.package.cron.fire_times import iter_fires_after
from workflows.package.findings import Findings
from workflows.package.readers.triggers_reader import read_triggers

BEAT = ROOT / "docs" / "migrating-from-celery-beat.md"
PAGES = sorted((ROOT / "docs").glob("migrating-*.md"))
ROW = re.compile(r'^\| `crontab\((.*)\)` \| `cron: "(.+)"` \|$', re.MULTILINE)
FIRST, LAST = datetime(2026, 2, 27, tzinfo=UTC), datetime(2026, 5, 8, tzinfo=UTC)


def celery_fires(schedule: Any) -> Iterator[datetime]:
    """Celery's own sets, all of which have to fit."""
    moment = FIRST
    while moment < LAST:
        fits = (
            moment.minute in schedule.minute
            and moment.hour in schedule.hour
            and moment.day in schedule.day_of_month
            and moment.month in schedule.month_of_year
            and moment.isoweekday() % 7 in schedule.day_of_week
        )
        if fits:
            yield moment
        moment += timedelta(minutes=1)


@pytest.mark.parametrize(("arguments", "cron"), ROW.findall(read(BEAT)))
def test_a_crontab_fires_when_its_cron_does(arguments: str, cron: str) -> None:
    given = dict(re.findall(r'(\w+)=("[^"]*"|\d+)', arguments))
    schedule = crontab(**{name: value.strip('"') for name, value in given.items()})

    ours = list(takewhile(lambda fire: fire < LAST, iter_fires_after(cron, "UTC", FIRST - timedelta(seconds=1))))

    assert ours == list(celery_fires(schedule))
    assert ours


def test_the_table_of_crontabs_is_there() -> None:
    assert len(ROW.findall(read(BEAT))) == read(BEAT).count("| `crontab(") == 8


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_new_side_can_be_read(page: Path) -> None:
    written = [yaml.safe_load(each.text) for each in blocks(page) if each.language == "yaml"]
    findings = Findings()

    for each in written:
        read_triggers(each["triggers"], file="triggers.yaml", findings=findings)

    assert written
    assert findings.all == ()
