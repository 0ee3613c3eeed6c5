"""`unattended budgets`: its tables and texts, and its usage errors."""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from click.testing import CliRunner
from rich.cells import cell_len

from accounting.budgets.budget import Budget, parse_budget
from accounting.budgets.budget_status import BudgetStatus
from accounting.budgets.budget_store import StoredBudget
from accounting.usage import NANO_PER_USD
from ops.cli.budgets.list_budgets_command import budget_lines, budget_table_lines
from ops.cli.groups import budgets
from ops.cli.output import Terminal
from ops.presenters.budget_text import describe_consequence, describe_limit

WIDE = Terminal(width=160, has_colours=False, has_unicode=True)
NOW = datetime.now(UTC)


def budget(**fields: Any) -> Budget:
    return parse_budget(**{"app_id": "acme", "window": "day", "unit": "usd", "limit": "10", **fields})


def budget_status(of: Budget, spent: int, app_id: str | None = "acme", **fields: Any) -> BudgetStatus:
    return BudgetStatus(of, app_id, NOW, NOW + timedelta(hours=5, minutes=12, seconds=30), spent=spent, **fields)


EACH = budget(app_id="*", window="month", unit="tokens", limit=1_000)
STANDINGS = [
    *(budget_status(EACH, number * 100, f"app-{number}") for number in range(8)),
    budget_status(budget(), 8_120_000_000, reserved=NANO_PER_USD // 8, rejections=3),
    BudgetStatus(budget(window="run"), "acme", None, None),
    BudgetStatus(budget(window="total", limit=2_500), "acme", NOW, None, spent=2_600 * NANO_PER_USD),
]


def table(rows: Sequence[BudgetStatus] = STANDINGS, terminal: Terminal = WIDE, limit: int | None = None) -> list[str]:
    return [*budget_table_lines(rows, terminal, now=NOW, max_apps=limit)]


def line_of(lines: Sequence[str], name: str) -> list[str]:
    return re.split(r"  +", next(line for line in lines if line.startswith(name)))


def test_a_line_shows_the_status_of_a_budget() -> None:
    lines = table()

    assert lines[0].split() == ["budget", "spent", "limit", "left", "reserved", "rejected", "ends", "in", "used"]
    assert line_of(lines, "app:acme/day/usd")[1:8] == ["8.12", "10.00", "1.88", "0.12", "3", "5 h 12 min", "81 %"]
    assert line_of(lines, "app:acme/total/usd")[1:6] == ["2,600.00", "2,500.00", "-100.00", "0.00", "0"]
    assert line_of(lines, "app:acme/total/usd")[-2:] == ["104 %", "█" * 30]
    assert line_of(lines, "app:acme/run/usd")[1:] == ["10.00", "0"]


def test_of_a_per_run_budget_all_that_it_prevented_is_shown() -> None:
    per_run = BudgetStatus(budget(window="run"), "acme", None, None, rejections_total=1234)
    kept = StoredBudget(per_run.budget, NOW, NOW, NOW, "ann (cli)")

    assert line_of(table([per_run]), "app:acme/run/usd")[1:] == ["10.00", "1,234"]
    assert [*budget_lines(kept, [per_run], WIDE, now=NOW)][-1] == "refused calls: 1,234 in all"


def test_of_a_per_app_budget_the_fullest_are_shown_and_the_rest_counted() -> None:
    some, all_ = table(limit=5), table()

    assert [line.split()[1] for line in some if line.startswith("app:*/")][:5] == [f"app-{n}" for n in (7, 6, 5, 4, 3)]
    assert some[-1] == "app:*/month/tokens: 3 more apps; `unattended budgets show app:*/month/tokens` shows them"
    assert sum(line.startswith("app:*/") for line in all_) == 8


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("unicode", [True, False])
def test_every_line_fits_its_terminal(width: int, unicode: bool) -> None:
    name = "umbrella-eu-production-tenant-0042-日本語"
    rows = [*STANDINGS, budget_status(budget(app_id=name, workflow="we\x1b[31mird"), NANO_PER_USD, name)]

    lines = table(rows, Terminal(width, has_colours=False, has_unicode=unicode))

    assert all(cell_len(line) <= width for line in lines)
    assert {"budget", "limit", "used"} <= set(lines[0].split())
    assert "\x1b" not in "".join(lines)
    assert unicode or "".join(lines).replace("日本語", "").isascii()


def test_a_bar_is_red_when_all_is_spent_and_yellow_from_four_fifths_on() -> None:
    rows = [budget_status(budget(), part * NANO_PER_USD) for part in (7, 8, 10)]

    lines = table(rows, Terminal(100, has_colours=True, has_unicode=True))

    assert [re.findall(r"\x1b\[(3\d)m", line) for line in lines[1:]] == [["31"], ["33"], ["32"]]


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"timezone": "Europe/Berlin"}, "at most USD 10.00 a day for acme (Europe/Berlin)"),
        (
            {"app_id": "*", "workflow": "Digest", "unit": "tokens", "limit": 2_000_000, "window": "total"},
            "at most 2,000,000 tokens in all for each app in Digest",
        ),
        ({"app_id": None, "workflow": "Digest", "window": "run"}, "at most USD 10.00 a run for all apps together"),
    ],
)
def test_a_budget_reads_as_a_sentence(fields: dict[str, Any], expected: str) -> None:
    assert describe_limit(budget(**fields)).startswith(expected)


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "new runs wait, running ones stop"),
        (
            {"new_runs": "refuse", "running": "hold", "pause_triggers": True},
            "new runs fail at their start, running ones wait after their turn, triggers pause",
        ),
        ({"soft": True}, "warn only"),
        ({"window": "run"}, "the run stops"),
    ],
)
def test_the_consequence_of_spending_it_is_shown(fields: dict[str, Any], expected: str) -> None:
    assert describe_consequence(budget(**fields)) == f"when spent: {expected}"


def test_a_story_names_its_author_and_reason() -> None:
    kept = StoredBudget(budget(note="as in the \x1b[31mcontract"), NOW, NOW, NOW, "ann (cli)")

    lines = [*budget_lines(kept, [STANDINGS[8]], WIDE, now=NOW)]

    assert lines[0] == "app:acme/day/usd"
    assert lines[3] == "note: as in the \\x1b[31mcontract"
    assert lines[4].endswith("UTC by ann (cli)")
    assert lines[6].startswith("8.12 of USD 10.00, 81 %  █")
    assert lines[7] == "reserved for calls in progress: USD 0.125"
    assert lines[-1].endswith("UTC, in 5 h 12 min")


DAY = "set --app acme --per day"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("set --app acme --per fortnight --usd 1", "--per must be one of hour, day, month, total, run"),
        (f"{DAY} --usd -1", "--usd must be a number from 0 to 1,000,000,000"),
        (f"{DAY} --usd ten", "'ten' is not a number; write it as 10"),
        (f"{DAY} --usd nan", "--usd must be a number"),
        (f"{DAY} --tokens 1.5", "--tokens must be a whole number of tokens"),
        (f"{DAY} --usd 1 --tokens 5", "a budget has one unit; for both, set two budgets"),
        (DAY, "a limit is needed, such as --usd 10 or --tokens"),
        ("set --app acme --usd 1", "Missing option '--per'"),
        ("set --per day --usd 1", "--app is required unless a workflow is given; write * for each app"),
        (f"{DAY} --usd 1 --timezone berlin", "--timezone is not a time zone; did you mean Europe/Berlin?"),
        (f"{DAY} --usd 1 --timezone Mars/Base", "--timezone is not a time zone; write a name such as Europe/Berlin"),
        (f"{DAY} --usd 1 --new-runs wait", "--new-runs must be one of hold, refuse"),
        (f"{DAY} --usd 1 --running go", "--running must be one of stop, hold"),
        (f"{DAY} --usd 1 --soft --pause-triggers", "--pause-triggers is not possible: a soft budget only warns"),
        (f"set --app {'a' * 201} --per day --usd 1", "--app must be a name of 1 to 200 characters"),
        ("show", "Missing argument 'ID'"),
    ],
)
def test_a_mistake_is_reported_before_any_server_is_contacted(arguments: str, expected: str) -> None:
    done = CliRunner().invoke(budgets, arguments.split())

    assert (done.exit_code, expected in done.output) == (2, True), done.output
