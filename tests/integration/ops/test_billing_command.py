"""`unattended billing …` on a real store: status, dead batches, exports and resends."""

import asyncio
import csv
import json
import os
import sys
from asyncio.subprocess import PIPE
from dataclasses import replace

import pytest
from click.testing import CliRunner

from accounting.billing.delivery_backoff import DeliveryBackoff
from accounting.billing.endpoint_health import EndpointHealth
from accounting.billing.http_post import PostResult
from accounting.billing.outbox import Outbox
from ops.cli.groups import billing
from ops.processes.supervisor import PROGRAM
from tests.integration.ops.command import CommandResult, command, environment, unattended
from tests.integration.stage import Stage
from tests.integration.usage_rows import UsedCalls, days, insert_usage
from tests.unit.accounting.billing.rows import row
from workers.settings import as_environment

pytestmark = pytest.mark.integration


async def run_billing(stage: Stage, *arguments: str) -> CommandResult:
    """Run in this process, as starting others would double the test's time."""
    settings = as_environment(replace(stage.settings, environ={}))
    done = await asyncio.to_thread(CliRunner().invoke, billing, arguments, env=settings)
    assert done.exception is None or isinstance(done.exception, SystemExit)
    return CommandResult(done.exit_code, done.stdout, done.stderr)


async def make_dead(stage: Stage, number: int) -> list[str]:
    outbox = Outbox(stage.store.database)
    await outbox.ensure_indexes()
    dead = []
    for each in range(number):
        await outbox.add([row(each)], None)
        batch = await outbox.claim()
        assert batch is not None
        await outbox.mark_failed(batch, "it answered 500: no\x1b[31m", retry_in_s=None)
        dead.append(batch.id)
    return dead


async def test_an_empty_outbox_is_no_trouble(stage: Stage) -> None:
    status, as_json, listed = [
        await run_billing(stage, *words) for words in (("status",), ("status", "--json"), ("list", "--json"))
    ]

    assert (status.code, as_json.code, listed.code) == (0, 0, 0)
    assert "not set here" in status.out
    assert as_json.json == {
        "endpoint": None,
        "pending": 0,
        "oldest_pending_age_s": 0.0,
        "dead": 0,
        "last_delivered_at": None,
        "endpoints_in_trouble": [],
    }
    assert listed.json == []


async def test_dead_batches_are_seen_looked_into_and_replayed(stage: Stage) -> None:
    [first, second] = await make_dead(stage, 2)

    status = await run_billing(stage, "status")
    listed = await run_billing(stage, "list", "--state", "dead", "--json")
    table = await run_billing(stage, "list")
    shown = await run_billing(stage, "show", first)
    shown_json = await run_billing(stage, "show", first, "--json")

    assert status.code == 1
    assert "dead:           2 batches" in status.out
    assert "replay --dead" in status.err
    assert [each["batch_id"] for each in listed.json] == [second, first]
    assert table.out.splitlines()[1].split("\t")[:4] == [second, "dead", "1", "1"]
    assert "it answered 500: no\\x1b[31m" in table.out
    assert "run_1:7:0" in shown.out
    assert shown_json.json["payload"]["data"]["events"][0]["id"] == "run_1:7:0"

    dry = await run_billing(stage, "replay", "--dead", "--dry-run")
    unasked = await run_billing(stage, "replay", "--dead")
    one = await run_billing(stage, "replay", first)
    rest = await run_billing(stage, "replay", "--dead", "--yes", "--json")

    assert (dry.code, dry.out) == (0, "would replay 2 batches; nothing was changed\n")
    assert unasked.code == 2
    assert "--yes" in unasked.err
    assert one.out == "1 batch: go out again\n"
    assert rest.json == {"changed": 1}
    assert (await run_billing(stage, "status", "--json")).json["pending"] == 2


async def test_batches_are_dropped_unless_they_are_delivered(stage: Stage) -> None:
    [dead, _] = await make_dead(stage, 2)
    outbox = Outbox(stage.store.database)
    for number in (8, 9):
        await outbox.add([row(number)], None)
    delivered = await outbox.claim()
    assert delivered is not None
    await outbox.mark_delivered(delivered)
    pending = (await run_billing(stage, "list", "--state", "pending", "--json")).json[0]["batch_id"]

    refused = await run_billing(stage, "drop", dead, delivered.id)
    dropped = await run_billing(stage, "drop", dead, pending)
    rest = await run_billing(stage, "drop", "--dead", "--yes", "--json")

    assert (refused.code, refused.out) == (1, "")
    assert f"there is no batch {delivered.id} to drop; `unattended billing list` lists the batches" in refused.err
    assert (dropped.code, dropped.out) == (0, "2 batches: dropped\n")
    assert rest.json == {"changed": 1}
    assert [each["batch_id"] for each in (await run_billing(stage, "list", "--json")).json] == [delivered.id]


async def test_an_endpoint_that_is_gone_is_shown_and_resumed(stage: Stage) -> None:
    endpoint = EndpointHealth(stage.store.database, "https://bills.example/usage?token=t0ken", DeliveryBackoff())
    await endpoint.record_failure(PostResult(410, "it answered 410: gone"), batch_id="batch_1")

    status = await run_billing(stage, "status")
    resumed = [await run_billing(stage, "resume") for _ in range(2)]

    assert status.code == 1
    assert "https://bills.example/…" in status.out
    assert "stopped since 20" in status.out
    assert "unattended billing resume" in status.err
    assert "t0ken" not in status.out + status.err
    assert [each.out for each in resumed] == ["delivery is resumed\n", "no endpoint was paused\n"]
    assert not await endpoint.is_paused()


async def test_an_export_goes_to_a_file_or_to_a_pipe(stage: Stage) -> None:
    await insert_usage(stage.store.database, [*days(30), *days(30, app_id="globex")])

    to_file = await unattended(stage, "billing", "export", "-o", "usage.csv", "--app", "acme")
    piped = await run_billing(stage, "export", "--format", "jsonl", "--since", "2026-01-11", "--until", "2026-01-12")

    assert (to_file.code, to_file.out, to_file.err) == (0, "", "30 calls\n")
    with (stage.folder / "usage.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 30
    assert {each["app_id"] for each in rows} == {"acme"}
    assert not list(stage.folder.glob("*.part"))
    lines = [json.loads(line) for line in piped.out.splitlines()]
    assert [(each["app_id"], each["at"][:10]) for each in lines] == [("acme", "2026-01-11"), ("globex", "2026-01-11")]


async def test_resending_shows_its_size_first(stage: Stage) -> None:
    await insert_usage(stage.store.database, days(30))

    dry = await run_billing(stage, "resend", "--since", "2026-01-01", "--dry-run", "--json")
    unasked = await run_billing(stage, "resend", "--since", "2026-01-01")
    done = await run_billing(stage, "resend", "--since", "2026-01-01", "--yes")

    assert dry.json == {"dry_run": True, "calls": 30}
    assert unasked.code == 2
    assert "send 30 calls again" in unasked.err
    assert done.out == "30 calls in the outbox\n"
    assert sum(each["events"] for each in (await run_billing(stage, "list", "--json")).json) == 30


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (("drop", "batch_x"), 1, "there is no batch batch_x to drop"),
        (("show", "batch_x"), 1, "there is no batch batch_x; `unattended billing list` lists the batches"),
        (("replay",), 2, "name batches, or use --dead"),
        (("replay", "batch_x", "--dead"), 2, "not both"),
        (("replay", "batch_x"), 1, "there is no batch batch_x"),
        (("resend",), 2, "--since is needed: a date such as 2026-01-31"),
        (("export", "--since", "1d", "--until", "2d"), 2, "--since must be before --until"),
        (("export", "--format", "xml"), 2, "xml"),
        (("export", "-o", "no/folder/usage.csv"), 1, "no/folder/usage.csv cannot be written: No such file"),
        (("list", "--state", "lost"), 2, "lost"),
        (("list", "--limit", str(2**64)), 2, "is not in the range 1<=x<=1000000"),
    ],
    ids=lambda value: "-".join(value).replace("/", "_") if isinstance(value, tuple) else "",
)
async def test_a_mistake_is_one_line_with_its_remedy(
    stage: Stage, arguments: tuple[str, ...], code: int, message: str
) -> None:
    done = await run_billing(stage, *arguments)

    assert (done.code, done.out) == (code, "")
    assert message in done.err


async def test_a_file_that_was_there_stays_until_the_new_one_is_whole(stage: Stage) -> None:
    (stage.folder / "usage.csv").touch()
    (stage.folder / "usage.csv.part").mkdir()

    done = await run_billing(stage, "export", "-o", str(stage.folder / "usage.csv"))

    assert done.code == 1
    assert (stage.folder / "usage.csv").stat().st_size == 0


async def test_an_export_into_a_pipe_leaves_it_a_pipe(stage: Stage) -> None:
    await insert_usage(stage.store.database, days(3))
    pipe = stage.folder / "pipe"
    os.mkfifo(pipe)
    reading = asyncio.create_task(asyncio.to_thread(pipe.read_text))

    done = await run_billing(stage, "export", "-o", str(pipe))

    assert (done.code, pipe.is_fifo()) == (0, True)
    assert (await asyncio.wait_for(reading, 20)).count("\n") == 4
    assert (await run_billing(stage, "export", "-o", "-")).out.count("\n") == 4


async def test_names_the_terminal_cannot_encode_are_shown_all_the_same(stage: Stage) -> None:
    await insert_usage(stage.store.database, [UsedCalls("日本")])
    poor = {**environment(stage), "PYTHONIOENCODING": "latin-1"}

    for arguments, name in ((("billing", "export"), "日本"), (("usage",), r"\u65e5\u672c")):
        process = await asyncio.create_subprocess_exec(*command(*arguments), env=poor, stdout=PIPE, stderr=PIPE)
        out, err = await asyncio.wait_for(process.communicate(), 60)
        assert process.returncode == 0, err
        assert name in out.decode()


async def test_a_closed_pipe_ends_the_export_quietly(stage: Stage) -> None:
    # More than a pipe holds, so that the command writes into one that is closed, however late `head` begins.
    await insert_usage(stage.store.database, [replace(call, app_id="acme" * 100) for call in days(31) * 10])

    process = await asyncio.create_subprocess_exec(
        *("sh", "-c", f"{sys.executable} -P {PROGRAM} billing export | head -n 2"),
        env=environment(stage),
        stdout=PIPE,
        stderr=PIPE,
    )
    out, err = await asyncio.wait_for(process.communicate(), 60)

    assert out.decode().startswith("id,at,app_id,")
    assert len(out.splitlines()) == 2
    assert err == b""
