"""The command line on real servers: JSON of every command, completion, and error messages."""

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from ops.cli import completion
from ops.cli.main import cli
from tests.integration.ops.command import unattended
from tests.integration.stage import Stage, relay
from tests.unit.ops.command_walk import all_commands
from workers.settings import as_environment

pytestmark = pytest.mark.integration

TRIGGERS = [{"name": "nightly", "type": "schedule", "cron": "0 2 * * *", "apps": ["acme"]}]
ENTRY = '{"name": "hourly", "type": "schedule", "cron": "0 * * * *"}'
GOOD, SAID_NO = 0, 1
# In an order that creates what later commands need; {run}, {key} and {waiting} are replaced.
STEPS = (
    ("doctor", (), GOOD),
    ("validate", (), GOOD),
    ("packages list", (), GOOD),
    ("packages show", ("Relay",), GOOD),
    ("enqueue", ("Relay", "--app", "acme"), GOOD),
    ("runs list", ("--state", "queued"), GOOD),
    ("runs show", ("{run}",), GOOD),
    ("runs retry-now", ("{run}",), GOOD),
    ("runs answer", ("{run}", "--message", "yes"), SAID_NO),
    ("runs cancel", ("{run}",), GOOD),
    ("runs tail", ("{run}",), SAID_NO),
    ("runs replay", ("--app", "acme", "--state", "cancelled", "--yes"), GOOD),
    ("runs discard", ("--all", "--dry-run"), GOOD),
    ("triggers list", (), GOOD),
    ("triggers show", ("nightly",), GOOD),
    ("triggers fire", ("nightly",), GOOD),
    ("triggers pause", ("nightly", "--note", "a holiday"), GOOD),
    ("triggers resume", ("nightly",), GOOD),
    ("triggers backfill", ("nightly", "--from", "3d", "--to", "1h", "--yes"), GOOD),
    ("triggers create", (ENTRY, "--workflow", "Relay", "--app", "globex"), GOOD),
    ("triggers edit", ("hourly", ENTRY, "--app", "globex"), GOOD),
    ("triggers remove", ("hourly", "--yes"), GOOD),
    ("usage", (), GOOD),
    ("usage", ("--verify",), GOOD),
    ("usage", ("--rebuild",), GOOD),
    ("budgets set", ("--app", "acme", "--per", "day", "--usd", "1"), GOOD),
    ("budgets list", (), GOOD),
    ("budgets show", ("app:acme/day/usd",), GOOD),
    ("budgets remove", ("app:acme/day/usd",), GOOD),
    ("billing status", (), GOOD),
    ("billing list", (), GOOD),
    ("billing show", ("nothing",), SAID_NO),
    ("billing replay", ("--dead", "--yes"), GOOD),
    ("billing drop", ("--dead", "--yes"), GOOD),
    ("billing resume", (), GOOD),
    ("billing resend", ("--since", "1d", "--yes"), GOOD),
    ("keys create", ("shop",), GOOD),
    ("keys list", (), GOOD),
    ("keys revoke", ("{key}",), GOOD),
)
# These have tests of their own, as they start servers, roles or a model.
ELSEWHERE = {"demo", "run"}


@pytest.fixture(autouse=True)
def logging_as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Keep commands from configuring the logging of this process."""
    for module in ("database_session", "local_commands"):
        monkeypatch.setattr(f"ops.cli.{module}.configure_logging", lambda **_: None)
    workflows = logging.getLogger("workflows")
    level = workflows.level
    yield
    workflows.setLevel(level)


def test_the_steps_are_all_commands_that_have_json() -> None:
    with_json = {path for path, each in all_commands().items() if "--json" in _names(each)}

    assert {path for path, _, _ in STEPS} == with_json - ELSEWHERE


def _names(command: click.Command) -> set[str]:
    return {name for each in command.params for name in each.opts}


async def test_with_json_each_command_prints_only_json_and_errors_on_stderr(stage: Stage) -> None:
    stage.package("Relay", {**relay("Relay", ["A"]), "triggers": {"triggers": TRIGGERS}})
    made: dict[str, str] = {}

    for path, arguments, code in STEPS:
        words = [each.format(**made) if each.startswith("{") and each != ENTRY else each for each in arguments]
        done = await _invoke_in_process(stage, *path.split(), *words, "--json")

        details = (path, done.output, done.exception)
        assert done.exit_code == code, details
        if code == SAID_NO and path != "runs tail":
            assert done.stdout == "", details
            assert done.stderr.startswith("unattended: "), details
            continue
        found = (
            [json.loads(line) for line in done.stdout.splitlines()] if path == "runs tail" else json.loads(done.stdout)
        )
        made |= _created_ids(path, found)


def _created_ids(path: str, found: Any) -> dict[str, str]:
    if path == "enqueue":
        return {"run": found["run_id"]}
    return {"key": found[0]["id"]} if path == "keys list" else {}


async def _invoke_in_process(stage: Stage, *arguments: str) -> Result:
    """Run in this process, as starting forty others would take a minute."""
    return await asyncio.to_thread(CliRunner().invoke, cli, arguments, env=as_environment(stage.settings))


async def test_tab_finds_apps_runs_triggers_and_keys_in_the_database(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage.package("Relay", {**relay("Relay", ["A"]), "triggers": {"triggers": TRIGGERS}})
    for name, value in as_environment(stage.settings).items():
        monkeypatch.setenv(name, value)
    for app_id in ("acme", "globex"):
        await _invoke_in_process(stage, "enqueue", "Relay", "--app", app_id)
    await _invoke_in_process(stage, "triggers", "create", ENTRY, "--workflow", "Relay", "--app", "globex")
    await _invoke_in_process(stage, "keys", "create", "shop")
    runs = [run["run_id"] for run in json.loads((await _invoke_in_process(stage, "runs", "list", "--json")).stdout)]

    finds = (completion.find_apps, completion.find_runs(), completion.find_runs("parked"), completion.find_triggers)
    apps, newest, parked, triggers = [[name for name, _ in await asyncio.to_thread(list, find(""))] for find in finds]
    begun = await asyncio.to_thread(list, completion.find_runs()(runs[1]))
    keys = await asyncio.to_thread(list, completion.find_ids("api_keys", "name")("key_"))

    assert apps == ["acme", "globex"]
    assert (newest, parked) == (runs, [])
    assert begun == [(runs[1], "acme Relay queued")]
    assert triggers == ["Relay/nightly", "Relay/hourly@globex"]
    assert [details for _, details in keys] == ["shop"]


async def test_an_unusable_mongodb_is_one_line_with_the_next_step(stage: Stage) -> None:
    url = stage.settings.mongodb_url or ""
    wrong = {
        "unattended: MongoDB refuses: Authentication failed; run `unattended doctor`\n": url.replace(
            "//", "//u:secret@"
        ),
        "unattended: MongoDB does not answer: SSL handshake failed": f"{url}&tls=true",
        "unattended: MongoDB does not answer: 127.0.0.1:1: ": "mongodb://127.0.0.1:1/",
        "unattended: UNATTENDED_MONGODB_URL cannot be used: ": "mongodb://h:99999/",
    }

    done = await asyncio.gather(*(unattended(stage, "usage", "--json", mongodb_url=each) for each in wrong.values()))

    assert [each.code for each in done] == [SAID_NO, SAID_NO, SAID_NO, 2]
    for each, line in zip(done, wrong, strict=True):
        assert each.err.startswith(line), each.err
        assert (each.out, each.err.count("\n")) == ("", 1)
        assert "secret" not in each.err
        assert "configured timeouts" not in each.err
