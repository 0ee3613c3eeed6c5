"""`unattended usage` against a real ledger: the same numbers on a terminal, in a pipe, as CSV and as JSON."""

import asyncio
import csv
import io
import json
import shlex
from collections import Counter
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from accounting.totals.roll_up import RollUp
from accounting.totals.row_sums import HOURS
from ops.cli.usage.usage_command import usage
from tests.integration.ops.command import command, environment, unattended
from tests.integration.ops.terminal import terminal_lines
from tests.integration.stage import Stage
from tests.integration.usage_rows import UsedCalls, days, insert_usage
from workers.settings import as_environment

pytestmark = pytest.mark.integration

CALLS = [
    *[UsedCalls("acme")] * 3,
    UsedCalls("acme", agent="Clerk", trigger_type="webhook", workflow="Orders"),
    UsedCalls("globex", input=1_000),
    UsedCalls("=globex", model="local"),
    UsedCalls("globex", status="missing"),
    UsedCalls("globex", status="estimated", at=datetime(2026, 3, 2, tzinfo=UTC)),
]


async def run_usage(stage: Stage, arguments: str) -> Result:
    """Run in this process, as starting others would double the test's time."""
    return await asyncio.to_thread(CliRunner().invoke, usage, arguments.split(), env=as_environment(stage.settings))


async def test_a_pipe_gets_lines_the_dearest_first_and_doubts_go_to_stderr(stage: Stage) -> None:
    await insert_usage(stage.store.database, CALLS)

    done = await unattended(stage, "usage")

    assert done.out == (
        "app\tcalls\tinput\tcached\toutput\tmissing\tUSD\n"
        "globex\t3\t1100\t550\t20\t1\t0.001140\n"
        "acme\t4\t400\t200\t40\t0\t0.000480\n"
        "=globex\t1\t100\t50\t10\t0\tunknown\n"
    )
    assert [line.split(" ")[0] for line in done.err.splitlines()] == ["1", "1", "1"]
    assert "has no price, so the sums lack their USD" in done.err


async def test_json_and_csv_have_the_same_fields_and_the_same_numbers(stage: Stage) -> None:
    await insert_usage(stage.store.database, CALLS)

    as_json = await run_usage(stage, "--by app,model --json")
    as_csv = await run_usage(stage, "--by app,model --csv")

    rows = json.loads(as_json.stdout)
    assert [(row["app_id"], row["model"]) for row in rows] == [("globex", "gpt"), ("acme", "gpt"), ("=globex", "local")]
    assert (as_json.stderr, as_csv.stderr) == ("", "")
    found = [*csv.DictReader(io.StringIO(as_csv.stdout))]
    assert list(found[0]) == list(rows[0])
    assert found[2]["app_id"] == "'=globex"
    assert [row["cost_usd"] for row in found] == ["0.00114", "0.00048", ""]
    assert [int(row["input_tokens"]) for row in found] == [row["input_tokens"] for row in rows]


@pytest.mark.design("D4-81")
@pytest.mark.parametrize("rolled_up", [False, True])
async def test_filters_and_times_choose_what_is_summed(stage: Stage, rolled_up: bool) -> None:
    await insert_usage(stage.store.database, CALLS)
    if rolled_up:
        await RollUp(stage.store.database).run_pass(Counter())

    for arguments, expected in {
        "--app acme --by agent": [("Writer", 3), ("Clerk", 1)],
        "--workflow Orders --by workflow": [("Orders", 1)],
        "--trigger http --by trigger": [("webhook", 1)],
        "--model local --by provider": [("openai", 1)],
        "--agent Writer --provider openai --by day": [("2026-03-01", 6), ("2026-03-02", 1)],
        "--since 2026-03-02 --by hour": [("2026-03-02T00:00Z", 1)],
        "--until 2026-03-01T12:30+00:00 --by app": [],
        "--by app --sort tokens --limit 1": [("globex", 3)],
        "--by app --sort name --limit 2": [("=globex", 1), ("acme", 4)],
    }.items():
        done = await run_usage(stage, f"{arguments} --json")
        rows = [tuple(row.values())[:2] for row in json.loads(done.stdout)]
        assert rows == expected, (arguments, done.stderr)


async def test_nothing_to_sum_up_is_reported(stage: Stage) -> None:
    never, other = await run_usage(stage, ""), await run_usage(stage, "--app nobody")
    by_name = await run_usage(stage, "--trigger weekday-morning")

    assert (never.exit_code, never.stderr) == (0, "there are no model calls yet\n")
    assert (other.exit_code, other.stderr) == (0, "no model call matches\n")
    assert by_name.stderr == "no model call matches; `unattended usage --by trigger` lists the types\n"
    assert json.loads((await run_usage(stage, "--json")).stdout) == []


async def test_a_full_disk_is_one_line(stage: Stage) -> None:
    for arguments in ("usage --json", "billing export"):
        line = f"exec {shlex.join(command(*arguments.split()))} > /dev/full"
        process = await asyncio.create_subprocess_shell(line, env=environment(stage), stderr=asyncio.subprocess.PIPE)
        _, err = await asyncio.wait_for(process.communicate(), 60)

        message = "unattended: standard output cannot be written: No space left on device\n"
        assert (process.returncode, err.decode()) == (1, message)


async def test_a_terminal_shows_bars_at_any_width_with_the_total_below(stage: Stage) -> None:
    await insert_usage(stage.store.database, [*CALLS, *days(3)])

    for width in (60, 80, 120):
        lines = await terminal_lines(stage, width, "usage", NO_COLOR="1")
        assert "\x1b" not in "".join(lines)
        assert max(map(cell_len, lines)) <= width
        assert lines[0] == "Usage by app, all time; bars are USD"
        assert [line.split()[0] for line in lines[1:]] == ["app", "globex", "acme", "=globex", "total"]
        assert lines[2].endswith("█")
        assert lines[-1].split()[-1] == "0.001980+"
    coloured = await terminal_lines(stage, 80, "usage", "--by", "day")
    assert "\x1b[36m" in coloured[2]
    ascii_ = await terminal_lines(stage, 80, "usage", NO_COLOR="1", PYTHONIOENCODING="ascii")
    assert "".join(ascii_).isascii()
    assert ascii_[2].endswith("#")


async def test_a_chart_can_be_piped_and_left_out(stage: Stage) -> None:
    await insert_usage(stage.store.database, CALLS)

    piped = await unattended(stage, "usage", "--chart", "--limit", "1")
    bare = await terminal_lines(stage, 100, "usage", "--no-chart", NO_COLOR="1")

    lines = piped.out.splitlines()
    assert lines[2].endswith("█")
    assert [line.split()[0] for line in lines[2:]] == ["globex", "…", "total"]
    assert bare[0] == "Usage by app, all time"
    assert "█" not in "".join(bare)


async def test_totals_that_differ_from_the_ledger_are_found_and_rebuilt(stage: Stage) -> None:
    database = stage.store.database
    await insert_usage(database, CALLS)
    await RollUp(database).run_pass(Counter())

    good = await run_usage(stage, "--verify")
    await database[HOURS].update_one({"app_id": "acme", "agent": "Writer"}, {"$inc": {"input_tokens": 7}})
    bad = await run_usage(stage, "--verify")
    bad_json = await run_usage(stage, "--verify --json")
    rebuilt = await run_usage(stage, "--rebuild --json")
    after = await run_usage(stage, "--verify --json")
    again = await run_usage(stage, "--rebuild")

    assert (good.exit_code, good.stdout) == (0, "the totals match the ledger\n")
    assert bad.exit_code == bad_json.exit_code == 1
    [_, line, *_] = bad.stdout.splitlines()
    assert line.split("\t")[0] == "2026-03-01 12:00 UTC"
    assert "app_id=acme" in line
    assert line.split("\t")[2:] == ["input_tokens", "300", "307"]
    assert "`unattended usage --rebuild` rebuilds the totals" in bad.stderr
    assert json.loads(bad_json.stdout)[0]["field"] == "input_tokens"
    assert (rebuilt.exit_code, json.loads(rebuilt.stdout)["changed"]) == (0, 1)
    assert (after.exit_code, json.loads(after.stdout)) == (0, [])
    assert again.stdout == "rebuilt: nothing has changed\n"


async def test_a_ledger_of_an_older_version_is_verified_and_rebuilt(stage: Stage) -> None:
    await insert_usage(stage.store.database, CALLS)
    await stage.store.database["usage"].drop_indexes()

    verified, rebuilt = await run_usage(stage, "--verify --json"), await run_usage(stage, "--rebuild")

    assert (verified.exit_code, rebuilt.exit_code) == (0, 0)
    assert rebuilt.stdout == "rebuilt: nothing has changed\n"
