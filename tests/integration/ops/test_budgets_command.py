"""`unattended budgets` against a real store: set, list, change and remove."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner, Result
from rich.cells import cell_len

from accounting.budgets.budget_store import BudgetStore
from accounting.budgets.effective_budgets import BudgetWindow
from accounting.budgets.window_calendar import window_span
from accounting.budgets.window_store import WindowStore
from ops.cli.groups import budgets
from tests.integration.ops.command import unattended
from tests.integration.ops.terminal import terminal_lines
from tests.integration.stage import Stage
from tests.integration.usage_rows import UsedCalls, insert_usage
from workers.settings import as_environment

pytestmark = pytest.mark.integration


async def run_budgets(stage: Stage, *arguments: str) -> Result:
    """Run in this process, as starting others would double the test's time."""
    return await asyncio.to_thread(CliRunner().invoke, budgets, arguments, env=as_environment(stage.settings))


async def test_a_budget_is_made_changed_shown_and_removed(stage: Stage) -> None:
    day = ("set", "--app", "acme", "--per", "day", "--usd")

    made = await unattended(stage, "budgets", *day, "10", "--timezone", "Europe/Berlin", "--note", "trial")
    changed = await run_budgets(stage, *day, "12.5", "--new-runs", "refuse", "--json")
    again = await run_budgets(stage, *day, "12.5")
    shown = await run_budgets(stage, "show", "app:acme/day/usd")
    shown_json = await run_budgets(stage, "show", "app:acme/day/usd", "--json")
    removed = await run_budgets(stage, "remove", "app:acme/day/usd")
    gone = [await run_budgets(stage, verb, "app:acme/day/usd") for verb in ("remove", "show")]

    assert (made.code, made.err) == (0, "")
    assert made.out == (
        "app:acme/day/usd is created: at most USD 10.00 a day for acme (Europe/Berlin)\n"
        "when spent: new runs wait, running ones stop\n"
    )
    changed_budget = json.loads(changed.stdout)
    assert (changed_budget["how"], changed_budget["limit"], changed_budget["timezone"]) == (
        "changed",
        12.5,
        "Europe/Berlin",
    )
    assert (changed_budget["new_runs"], changed_budget["note"]) == ("refuse", "trial")
    assert again.stdout.startswith("app:acme/day/usd is unchanged: at most USD 12.50 a day")
    lines = shown.stdout.splitlines()
    assert lines[2:4] == ["when spent: new runs fail at their start, running ones stop", "note: trial"]
    assert lines[4].endswith("(cli)")
    assert json.loads(shown_json.stdout)["updated_by"].endswith("(cli)")
    assert removed.stdout == "app:acme/day/usd is removed\n"
    assert await BudgetStore(stage.store.database).list() == []
    for each in gone:
        assert (each.exit_code, each.stdout) == (1, "")
        assert each.stderr == (
            "unattended: there is no budget app:acme/day/usd; `unattended budgets list` lists the budgets\n"
        )


async def test_a_change_that_does_not_fit_what_is_kept_is_refused(stage: Stage) -> None:
    day = ("set", "--app", "acme", "--per", "day", "--usd", "10")
    await run_budgets(stage, *day, "--pause-triggers")

    refused = await run_budgets(stage, *day, "--soft")
    taken = await run_budgets(stage, *day, "--soft", "--leave-triggers")

    assert (refused.exit_code, taken.exit_code) == (2, 0)
    assert "--pause-triggers is not possible: a soft budget only warns" in refused.output


async def test_names_of_all_sorts_are_limited_and_found_again(stage: Stage) -> None:
    for name in ("a/b c", "日本", "50%", "-x", "acme/workflow:y"):
        made = await run_budgets(stage, "set", f"--app={name}", "--per", "total", "--tokens", "5_000", "--json")
        budget_id = json.loads(made.stdout)["budget_id"]
        shown = await run_budgets(stage, "show", "--json", "--", budget_id)
        assert json.loads(shown.stdout)["app_id"] == name
        assert (await run_budgets(stage, "remove", "--", budget_id)).exit_code == 0


async def test_the_list_is_for_people_pipes_and_programs(stage: Stage) -> None:
    nothing = await run_budgets(stage, "list")
    for arguments in (
        ("--app", "acme", "--per", "day", "--usd", "10"),
        ("--app", "globex", "--per", "run", "--tokens", "1000"),
        ("--workflow", "Digest", "--per", "hour", "--usd", "0.5", "--soft"),
    ):
        assert (await run_budgets(stage, "set", *arguments)).exit_code == 0

    piped = await run_budgets(stage, "list")
    rows = json.loads((await run_budgets(stage, "list", "--json")).stdout)
    of_app = json.loads((await run_budgets(stage, "list", "--json", "--app", "acme")).stdout)
    screen = await terminal_lines(stage, 70, "budgets", "list", NO_COLOR="1")

    assert (nothing.stdout.count("\n"), "budgets set --help" in nothing.stderr) == (1, True)
    ids = ["app:acme/day/usd", "app:globex/run/tokens", "workflow:Digest/hour/usd"]
    assert [line.split("\t")[0] for line in piped.stdout.splitlines()] == ["budget_id", *ids]
    assert [row["budget_id"] for row in rows] == ids
    assert [row["budget_id"] for row in of_app] == [ids[0], ids[2]]
    assert {"spent", "reserved", "left", "share", "window_end", "exhausted", "rejections"} <= set(rows[0])
    assert rows[0]["spent"] == 0
    assert datetime.fromisoformat(rows[0]["window_end"]) > datetime.now(UTC)
    assert [line.split()[0] for line in screen] == ["budget", *ids]
    assert max(map(cell_len, screen)) <= 70


async def test_a_budget_for_an_unused_name_is_doubted(stage: Stage) -> None:
    day = ("--per", "day", "--usd", "10")
    first = await run_budgets(stage, "set", "--app", "acme", *day)
    await insert_usage(stage.store.database, [UsedCalls("acme", workflow="Digest")])

    results = [await run_budgets(stage, "set", *whose, *day) for whose in (("--workflow", "Digest"), ("--app", "*"))]
    doubted = [await run_budgets(stage, "set", *whose, *day) for whose in (("--workflow", "Dgiest"), ("--app", "acne"))]

    assert [each.stderr for each in (first, *results)] == [""] * 3
    assert {each.stderr for each in doubted} == {
        "unattended: no model call so far counts towards this budget; check the spelling of app and workflow\n"
    }


async def test_one_app_that_has_spent_all_is_counted_in_the_singular(stage: Stage) -> None:
    await run_budgets(stage, "set", "--app", "*", "--per", "total", "--usd", "1")
    [budget] = await BudgetStore(stage.store.database).list()
    place = BudgetWindow(budget, "acme", window_span("total", "UTC", datetime.now(UTC)))
    await insert_usage(stage.store.database, [UsedCalls("acme", input=2_000_000, output=0)])
    await WindowStore(stage.store.database).open(place)

    changed = await run_budgets(stage, "set", "--app", "*", "--per", "total", "--usd", "2")

    assert (
        changed.stderr
        == "unattended: the budget is spent already, by 1 app: `unattended budgets show app:*/total/usd`\n"
    )


async def test_spending_before_a_budget_was_set_is_shown(stage: Stage) -> None:
    await insert_usage(stage.store.database, [UsedCalls("acme", input=2_000_000, output=0)])

    spent = await run_budgets(stage, "set", "--app", "acme", "--per", "total", "--usd", "1.5")
    raised = await run_budgets(stage, "set", "--app", "acme", "--per", "total", "--usd", "8", "--note", "raised")
    [row] = json.loads((await run_budgets(stage, "list", "--json")).stdout)
    shown = await run_budgets(stage, "show", "app:acme/total/usd")

    assert spent.stderr == (
        "unattended: the budget is spent already, USD 2.00: `unattended budgets show app:acme/total/usd`\n"
    )
    assert (raised.exit_code, raised.stderr) == (0, "")
    assert (row["spent"], row["left"], row["share"], row["exhausted"]) == (2, 6, 0.25, False)
    assert "2.00 of USD 8.00, 25 %  ███████▌" in shown.stdout.splitlines()
