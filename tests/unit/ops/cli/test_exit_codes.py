"""Exit codes and error messages: one line on stderr with the next step, never a traceback."""

import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

import bson
import pytest

from ops.cli.error_messages import describe_error
from ops.cli.main import run
from tests.unit.ops.command_walk import all_commands, all_groups

GOOD, SAID_NO, WRONG_USE = 0, 1, 2
CapturedOutput = tuple[int, str, str]
# Commands that connect to a database first, with their required arguments.
ASK_THE_STORE = {
    "enqueue": ["DailyDigest", "--app", "acme"],
    "runs list": [],
    "runs show": ["8C0A2F"],
    "runs tail": ["8C0A2F"],
    "runs answer": ["8C0A2F", "--message", "yes"],
    "runs retry-now": ["8C0A2F"],
    "runs replay": ["8C0A2F"],
    "runs cancel": ["--all", "--yes"],
    "runs discard": ["--app", "acme", "--dry-run"],
    "triggers show": ["weekday-morning"],
    "triggers fire": ["weekday-morning"],
    "triggers pause": ["weekday-morning"],
    "triggers resume": ["weekday-morning"],
    "triggers backfill": ["weekday-morning", "--from", "3d", "--to", "1d"],
    "triggers create": ['{"name": "n", "type": "schedule", "cron": "@daily"}', "--workflow", "W", "--app", "acme"],
    "triggers edit": ["n", '{"name": "n", "type": "schedule", "cron": "@daily"}'],
    "triggers remove": ["n", "--yes"],
    "usage": [],
    "budgets list": [],
    "budgets show": ["app:acme/day/usd"],
    "budgets set": ["--app", "acme", "--per", "day", "--usd", "1"],
    "budgets remove": ["app:acme/day/usd"],
    "billing status": [],
    "billing list": [],
    "billing show": ["01JX"],
    "billing replay": ["--dead", "--yes"],
    "billing drop": ["01JX"],
    "billing resume": [],
    "billing resend": ["--since", "7d", "--yes"],
    "billing export": [],
    "keys create": ["shop"],
    "keys list": [],
    "keys revoke": ["key_01JX"],
    "worker": [],
    "scheduler": [],
    "watcher": [],
    "gateway": [],
    "exporter": [],
}
# Commands that work, or fail, without a server.
NEED_NO_STORE = {
    "demo",
    "up",
    "doctor",
    "completion",
    "packages list",
    "packages show",
    "packages schema",
    "validate",
} | {
    "run",
    "triggers list",
}


@pytest.fixture
def unattended(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> Callable[..., CapturedOutput]:
    """Runs a command without servers; returns exit code, stdout and stderr."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("ops.cli.role_commands.configure_logging", lambda **_: None)  # this process continues

    def said(*arguments: str) -> CapturedOutput:
        monkeypatch.setattr(sys, "argv", ["unattended", *arguments])
        with pytest.raises(SystemExit) as ended:
            run()
        out, err = capfd.readouterr()
        return int(ended.value.code or 0), out, err

    return said


def test_the_table_has_every_command() -> None:
    assert ASK_THE_STORE.keys() | NEED_NO_STORE == all_commands().keys()


@pytest.mark.parametrize("path", sorted(ASK_THE_STORE))
def test_with_nothing_running_it_exits_with_one_line(path: str, unattended: Callable[..., CapturedOutput]) -> None:
    asks_for_json = (
        ["--json"] if "--json" in {name for each in all_commands()[path].params for name in each.opts} else []
    )

    code, out, err = unattended(*path.split(), *ASK_THE_STORE[path], *asks_for_json)

    assert (code, out) == (SAID_NO, "")
    assert err.startswith("unattended: nothing is running: start `unattended up`, or set UNATTENDED_MONGODB_URL")
    assert err.count("\n") == 1


@pytest.mark.parametrize("path", sorted(all_commands()))
def test_an_unknown_option_is_wrong_use_in_one_line_that_names_the_help(
    path: str, unattended: Callable[..., CapturedOutput]
) -> None:
    code, out, err = unattended(*path.split(), "--jsonn")

    assert (code, out) == (WRONG_USE, "")
    assert err.startswith("unattended: no such option '--jsonn'")
    assert err.endswith(f"ee `unattended {path} --help`\n")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "code", "line"),
    [
        (["valdate"], 2, "no such command 'valdate'. Did you mean 'validate'? See `unattended --help`"),
        (["runs", "shw"], 2, "no such command 'shw'. Did you mean 'show'? See `unattended runs --help`"),
        (["enqueue"], 2, "missing argument 'WORKFLOW'; see `unattended enqueue --help`"),
        (["enqueue", "W"], 2, "missing option '--app'; see `unattended enqueue --help`"),
        (
            ["enqueue", "W", "--app", "a", "--input", '{"a" 1}'],
            2,
            "invalid value for --input: is not JSON: Expecting ':' delimiter: line 1 column 6 (char 5);"
            " see `unattended enqueue --help`",
        ),
        (
            ["enqueue", "W", "--app", "a", "--input", "@nowhere.json"],
            2,
            "invalid value for --input: nowhere.json cannot be read: No such file or directory;"
            " see `unattended enqueue --help`",
        ),
        (
            ["runs", "list", "--since", "2026-13-01"],
            2,
            "invalid value for '--since': write a date such as 2026-01-31 or an age such as 7d or 12h;"
            " see `unattended runs list --help`",
        ),
        (
            ["runs", "list", "--since", "1d", "--until", "2d"],
            2,
            "--since must be before --until; no run can match; see `unattended runs list --help`",
        ),
        (
            ["runs", "cancel"],
            2,
            "name runs, use a filter such as --app, or use --all; see `unattended runs cancel --help`",
        ),
        (
            ["budgets", "set", "--per", "day", "--usd", "much"],
            2,
            "invalid value for '--usd': 'much' is not a number; write it as 10, 0.5 or 2_000_000;"
            " see `unattended budgets set --help`",
        ),
        (
            ["triggers", "create", "nowhere.yaml"],
            2,
            "invalid value for FILE: nowhere.yaml cannot be read: No such file or directory;"
            " see `unattended triggers create --help`",
        ),
        (
            ["completion", "tcsh"],
            2,
            "invalid value for 'bash|zsh|fish': 'tcsh' is not one of 'bash', 'zsh', 'fish';"
            " see `unattended completion --help`",
        ),
        (["packages", "show", "Nope"], 1, "there is no package Nope; `unattended packages list` lists the packages"),
        (
            ["validate", "nowhere"],
            2,
            "invalid value for PATH: nowhere does not exist; see `unattended validate --help`",
        ),
    ],
)
def test_a_mistake_is_one_line_with_the_next_step(
    arguments: list[str], code: int, line: str, unattended: Callable[..., CapturedOutput]
) -> None:
    found, out, err = unattended(*arguments)

    assert (found, out, err) == (code, "", f"unattended: {line}\n")


def test_an_argument_that_is_not_utf_8_is_wrong_use() -> None:
    with pytest.raises(UnicodeEncodeError) as caught:
        bson.encode({"workflow": os.fsdecode(b"\xff")})

    assert describe_error(caught.value) == ("an argument has bytes that are not UTF-8; write it in UTF-8", WRONG_USE)


@pytest.mark.parametrize("group", ["", *sorted(all_groups())])
def test_a_group_alone_shows_its_help_as_wrong_use(group: str, unattended: Callable[..., CapturedOutput]) -> None:
    code, out, err = unattended(*group.split())

    assert (code, out) == (WRONG_USE, "")
    assert err.startswith("Usage: unattended ")


@pytest.mark.parametrize("arguments", [["--help"], ["runs", "--help"], ["usage", "--help"], ["--version"]])
def test_help_is_good(arguments: list[str], unattended: Callable[..., CapturedOutput]) -> None:
    code, out, err = unattended(*arguments)

    assert (code, err) == (GOOD, "")
    assert "unattended" in out


def test_what_needs_no_server_is_good_and_prints_json_alone(unattended: Callable[..., CapturedOutput]) -> None:
    for arguments in (["packages", "list", "--json"], ["triggers", "list", "--json"], ["packages", "schema", "agents"]):
        code, out, _ = unattended(*arguments)

        assert code == GOOD
        assert json.loads(out)


def test_an_unusable_file_is_reported_in_one_line(
    unattended: Callable[..., CapturedOutput], monkeypatch: pytest.MonkeyPatch
) -> None:
    def denied(_: object) -> None:
        raise PermissionError(13, "Permission denied", "/srv/flows")

    monkeypatch.setattr("ops.cli.packages.validate_command.find_package_folders", denied)

    code, out, err = unattended("validate", ".")

    assert (code, out) == (SAID_NO, "")
    assert err == "unattended: /srv/flows cannot be used: Permission denied; correct its name or its permissions\n"
