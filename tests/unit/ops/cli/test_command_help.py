"""The help of every command: its sentences, examples and options, and that every report has --json."""

import re

import click
import pytest
from click.testing import CliRunner

from ops.cli.main import SECTIONS, cli
from ops.docs_commands import PAGE, with_reference
from tests.unit.ops.command_walk import all_commands, all_groups, parse_command

COMMANDS = all_commands()
NOTHING_TO_REPORT = "goes on until it is told to stop"
WITHOUT_JSON = {
    "up": NOTHING_TO_REPORT,
    "worker": NOTHING_TO_REPORT,
    "scheduler": NOTHING_TO_REPORT,
    "watcher": NOTHING_TO_REPORT,
    "gateway": NOTHING_TO_REPORT,
    "exporter": NOTHING_TO_REPORT,
    "completion": "prints a script for a shell",
    "billing export": "prints CSV or JSON lines, as --format says",
    "packages schema": "prints JSON in any case",
}

each_command = pytest.mark.parametrize("path", sorted(COMMANDS))


def options(path: str) -> list[click.Option]:
    return [each for each in COMMANDS[path].params if isinstance(each, click.Option)]


def test_the_top_help_has_every_command_once_by_purpose() -> None:
    listed = [name for section in SECTIONS.values() for name, _, _ in section]
    shown = CliRunner().invoke(cli, ["--help"], terminal_width=80).stdout

    assert sorted(listed) == sorted(cli.commands)
    assert len(listed) == len(set(listed))
    for name in listed:
        assert len(re.findall(rf"^  {name} ", shown, re.MULTILINE)) == 1
    assert "Exit codes: 0 success" in shown


@pytest.mark.parametrize("group", ["", *sorted(all_groups())])
def test_a_listing_has_whole_sentences_in_80_columns(group: str) -> None:
    named = all_groups()[group].commands if group else cli.commands
    shown = CliRunner().invoke(cli, [*group.split(), "--help"], terminal_width=80).stdout.splitlines()

    for name in named:
        line = next(line for line in shown if re.match(rf"  {name} ", line))
        assert line.endswith("."), line
        assert not line.endswith(".."), line
        assert len(line) <= 80


@each_command
def test_help_ends_with_valid_examples_and_related_commands(path: str) -> None:
    command = COMMANDS[path]

    assert command.examples, "no example"
    assert {parse_command(line)[0] for line in command.examples} == {path}
    assert set(command.related) <= COMMANDS.keys() - {path}
    shown = CliRunner().invoke(cli, [*path.split(), "--help"], terminal_width=80).stdout
    for line in command.examples:
        assert f"\n  {line}\n" in shown


@each_command
def test_every_option_has_a_description_and_a_default(path: str) -> None:
    context = click.Context(COMMANDS[path], info_name=path, show_default=True)

    for option in options(path):
        record = option.get_help_record(context)
        assert option.help, f"{option.name} has no help"
        assert record is not None
        if isinstance(option.default, str | int | tuple) and option.default:
            assert "default: " in record[1].lower(), f"{option.name} hides its default"


@each_command
def test_what_reports_something_has_json_or_a_reason_not_to(path: str) -> None:
    has_json = any("--json" in option.opts for option in options(path))

    assert has_json != (path in WITHOUT_JSON), WITHOUT_JSON.get(path, "give it --json, or a reason above")


def test_the_page_of_the_command_line_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert with_reference(page) == page, "run: .venv/bin/python -m ops.docs_commands"
    for path in COMMANDS:
        assert f"\n### unattended {path}\n" in page
    for path in WITHOUT_JSON:
        exception = path if path in ("up", "completion", "billing export", "packages schema") else "the roles"
        assert exception in page.partition("--json` prints")[2].partition("\n")[0]
