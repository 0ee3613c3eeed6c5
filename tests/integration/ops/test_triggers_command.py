"""`unattended triggers …` in a process of its own: output, changes and refusals."""

import asyncio
import json
from dataclasses import replace

import pytest
from click.testing import CliRunner, Result

from ops.cli.groups import triggers as commands
from tests.integration.ops.command import CommandResult, unattended
from tests.integration.stage import Stage, relay
from tests.integration.triggers.control.trigger_bench import TRIGGERS
from workers.settings import as_environment

pytestmark = pytest.mark.integration

HOURLY = '{"name": "hourly", "cron": "0 * * * *", "timezone": "Europe/Berlin"}'


def packages(stage: Stage) -> None:
    stage.package("Digest", {**relay("Digest", ["A"]), "triggers": {"triggers": TRIGGERS}})
    stage.package("Sales", relay("Sales", ["A"]))


async def triggers(stage: Stage, *arguments: str) -> CommandResult:
    return await unattended(stage, "triggers", *arguments)


async def refusal(stage: Stage, *arguments: str) -> Result:
    """Run in this process, as starting ten others would double the test's time."""
    return await asyncio.to_thread(CliRunner().invoke, commands, arguments, env=as_environment(stage.settings))


async def test_without_servers_the_packages_triggers_are_listed(stage: Stage) -> None:
    packages(stage)
    stage.settings = replace(stage.settings, mongodb_url=None, redis_url=None, data_dir=stage.folder / "nothing")

    listed, shown = await asyncio.gather(triggers(stage, "list", "--json"), triggers(stage, "show", "nightly"))

    assert (listed.code, [row["name"] for row in listed.json]) == (
        0,
        ["after", "hook", "lead", "locked", "nightly", "paid"],
    )
    assert listed.err.startswith("no database is running, so these are the packages' triggers only")
    assert (shown.code, shown.err.count("\n")) == (1, 1)
    assert "nothing is running" in shown.err


async def test_a_trigger_is_made_fired_paused_shown_and_removed(stage: Stage) -> None:
    packages(stage)
    entry = stage.folder / "entry.yaml"
    entry.write_text("- name: ask\n  type: form_submit\n  inputs: {question: {required: true}}\n")

    made, form = await asyncio.gather(
        triggers(stage, "create", HOURLY, "--workflow", "Sales", "--app", "acme", "--type", "cron"),
        triggers(stage, "create", str(entry), "--workflow", "Sales", "--app", "globex", "--json"),
    )
    await triggers(stage, "pause", "hourly", "--note", "the shop is [moving]\x1b[31m")
    fired, listed, shown = await asyncio.gather(
        triggers(stage, "fire", "hourly", "--json"),
        triggers(stage, "list", "--state", "paused"),
        triggers(stage, "show", "Sales/hourly"),
    )
    resumed = await triggers(stage, "resume", "hourly", "--json")
    removed = await triggers(stage, "remove", "hourly", "--yes")

    assert (made.code, made.out) == (0, "Sales/hourly@acme is created, revision 1\n")
    assert (form.json["trigger_id"], form.json["outlook"]["addresses"]["globex"]) == (
        "Sales/ask@globex",
        "/forms/globex/Sales/ask",
    )
    [run] = await stage.store.runs.find().to_list()
    assert fired.json == [{"app_id": "acme", "run_id": run["_id"]}]
    assert (run["trigger"]["type"], run["trigger"]["name"]) == ("schedule", "hourly")
    [row] = [line.split("\t") for line in listed.out.splitlines()[1:]]
    assert row[:4] + row[-1:] == ["Sales/hourly@acme", "schedule", "acme", "paused", "paused"]
    lines = shown.out.splitlines()
    assert lines[:2] == ["Sales/hourly  schedule for acme", "paused"]
    assert lines[2].endswith("UTC: the shop is [moving]\\x1b[31m")
    times = [line for line in lines if "+01:00" in line or "+02:00" in line]
    assert (len(times), times[0].startswith("  would run at 2")) == (10, True)
    assert "  but idle     it is paused: these times pass without a run" in lines
    assert lines[-1] == "→ resume it: unattended triggers resume Sales/hourly@acme"
    assert (resumed.json["changed"], removed.code) == (True, 0)
    assert await stage.store.database["triggers"].count_documents({"spec": {"$exists": True}}) == 1


async def test_a_backfill_is_looked_at_first_and_may_be_repeated(stage: Stage) -> None:
    packages(stage)
    past = ("backfill", "nightly", "--from", "2026-03-01", "--to", "2026-03-10T23:00Z")

    dry, asked = await asyncio.gather(triggers(stage, *past, "--dry-run"), triggers(stage, *past))
    before = await stage.store.runs.count_documents({})
    one = await triggers(stage, *past, "--app", "acme", "--yes", "--json")
    both = await triggers(stage, *past, "--yes")

    assert dry.out.splitlines()[0] == "2026-03-01 02:30:00 UTC"
    assert dry.out.splitlines()[-1] == "would start 20 runs of Digest/nightly, for 2 apps; nothing was changed"
    assert (asked.code, before) == (2, 0)
    assert "use --yes, or --dry-run for a preview" in asked.err
    assert one.json == {"trigger_id": "Digest/nightly", "created": 10, "there_already": 0}
    assert both.out == "10 runs started, 10 existed already\n"
    assert await stage.store.runs.count_documents({"trigger.name": "nightly"}) == 20


async def test_a_backfill_with_nothing_to_do_reports_why(stage: Stage) -> None:
    packages(stage)
    past = ("backfill", "nightly", "--from", "2026-03-01", "--to", "2026-03-02T23:00Z")
    await triggers(stage, *past, "--yes")
    all_there = "between 2026-03-01 00:00:00 UTC and 2026-03-02 23:00:00 UTC: all 2 times have their runs\n"
    cases = [
        ((*past, "--yes"), all_there),
        ((*past, "--dry-run"), all_there),
        (past, all_there),
        ((*past[:-1], "2026-03-01T23:00Z"), ": its only time has its run\n"),
        (
            (*past[:3], "2026-03-01T05:00+02:00", "--to", "2026-03-01T06:00+02:00"),
            ": the schedule has no time in that range\n",
        ),
        ((*past[:3], "9000-01-01", "--to", "9000-02-01"), ": the schedule has no time in that range so far\n"),
    ]

    for arguments, message in cases:
        done = await refusal(stage, *arguments)
        assert done.exit_code == 0
        assert done.stdout.startswith("nothing to backfill between ")
        assert done.stdout.endswith(message)
    as_json = await refusal(stage, *past, "--json")
    assert json.loads(as_json.stdout) == {"trigger_id": "Digest/nightly", "created": 0, "there_already": 4}


async def test_a_refusal_is_one_line_with_an_exit_code(stage: Stage) -> None:
    packages(stage)
    await triggers(stage, "create", HOURLY, "--workflow", "Sales", "--app", "acme", "--type", "cron")
    ours = ("--workflow", "Sales", "--app", "acme")
    refused: list[tuple[tuple[str, ...], int, str]] = [
        (
            ("show", "nothing"),
            1,
            "unattended: there is no trigger nothing; `unattended triggers list` lists the triggers\n",
        ),
        (("fire", "paid"), 2, "unattended: --app: is needed, as =fullDocument.app_id selects no app from the event"),
        (("resume", "nightly", "--from", "now"), 1, "only triggers on changes or ended runs have a position"),
        (("remove", "nightly", "--yes"), 1, "edit its triggers.yaml instead"),
        (("remove", "hourly"), 2, "use --yes"),
        (("edit", "hourly", HOURLY, "--revision", "7"), 1, "was edited meanwhile and has revision 1 now"),
        (("create", HOURLY, "--type", "cron", *ours), 1, "there is a trigger Sales/hourly@acme already"),
        (("create", '{"name": "x", "type": "cron", "cron": "99 * * * *"}', *ours), 2, "unattended: cron: "),
        (("backfill", "lead", "--from", "2d", "--to", "1d"), 1, "is a form_submit"),
    ]

    for arguments, code, message in refused:
        done = await refusal(stage, *arguments)
        assert (done.exit_code, done.stdout) == (code, ""), (arguments, done.stderr)
        assert message in done.stderr, (arguments, done.stderr)


async def test_filters_narrow_the_list(stage: Stage) -> None:
    packages(stage)

    by_type, by_app = await asyncio.gather(
        triggers(stage, "list", "--type", "http", "--json"), triggers(stage, "list", "--app", "initech", "--json")
    )
    locked = await refusal(stage, "list", "--state", "inactive")

    assert [row["name"] for row in by_type.json] == ["hook", "locked"]
    assert [row["name"] for row in by_app.json] == ["after", "paid"]
    assert "in this command's environment: the secret env:HOOK_SECRET is not set" in locked.stdout
