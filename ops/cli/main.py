"""The `unattended` command. Exit codes: 0 good, 1 said no, 2 wrong use, 130 interrupted."""

import io
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TextIO

import click
from typing_extensions import override

from ops.cli.command import PROGRAM, DeferredCommand, Group

EXIT_INTERRUPTED = 130
COMPLETE_VARIABLE = "_UNATTENDED_COMPLETE"

SECTIONS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "Start here": (
        ("demo", "ops.cli.machine_commands:demo", "Shows everything on this machine in two minutes, then ends."),
        ("up", "ops.cli.machine_commands:up", "Starts servers and all roles on this machine, until Ctrl-C."),
        ("doctor", "ops.cli.machine_commands:doctor", "Says what would break, and what to do about it."),
        ("completion", "ops.cli.completion:completion", "Prints what makes your shell complete commands with Tab."),
    ),
    "Work on packages": (
        ("packages", "ops.cli.packages.package_commands:packages", "What can run."),
        (
            "validate",
            "ops.cli.packages.validate_command:validate",
            "Checks packages: ready, with findings, or refused, and why.",
        ),
        ("run", "ops.cli.runs.local_run_command:run_locally", "Runs WORKFLOW in this process, without any service."),
        ("enqueue", "ops.cli.runs.enqueue_command:enqueue", "Starts one run of WORKFLOW by hand, on the workers."),
    ),
    "See and steer what runs": (
        ("runs", "ops.cli.groups:runs", "What ran, what runs, and what came of it."),
        ("triggers", "ops.cli.groups:triggers", "Why things run."),
        ("usage", "ops.cli.usage.usage_command:usage", "Tokens and USD by app, workflow, model or time."),
    ),
    "Operate it": (
        ("budgets", "ops.cli.groups:budgets", "What may be spent: tokens or USD by app, workflow or run."),
        ("billing", "ops.cli.groups:billing", "What goes to whoever bills the apps, and exports of usage."),
        ("keys", "ops.cli.key_commands:keys", "API keys for /v1."),
    ),
    "Roles, each a process": (
        ("worker", "ops.cli.role_commands:worker", "Works on runs: claims them, holds chats, counts tokens."),
        (
            "scheduler",
            "ops.cli.role_commands:scheduler",
            "Fires schedules; finds lost wake-ups and dead workers' runs.",
        ),
        ("watcher", "ops.cli.role_commands:watcher", "Turns MongoDB changes into runs."),
        ("gateway", "ops.cli.role_commands:gateway", "Answers webhooks, forms, the API and the console over HTTP."),
        ("exporter", "ops.cli.role_commands:exporter", "Shows runs, queues and usage to Prometheus."),
    ),
}


class RootGroup(Group):
    """Who reads a pipe may have had enough, as `head` has after ten lines: that is nobody's mistake."""

    @override
    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        with _exit_on_broken_pipe():
            return super().make_context(info_name, args, parent, **extra)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        with _exit_on_broken_pipe():
            return super().invoke(ctx)


@contextmanager
def _exit_on_broken_pipe() -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        from ops.presenters.times import discard_stdout

        discard_stdout()
        raise click.exceptions.Exit(0) from None


@click.group(
    cls=RootGroup,
    sections={title: [name for name, _, _ in section] for title, section in SECTIONS.items()},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
    epilog="""
    Exit codes: 0 good; 1 it said no, as the run failed or there is no such run; 2 wrong use; 130 Ctrl-C.
    Every command that reports something has --json. Help with examples: unattended COMMAND --help.
    """,
)
@click.version_option(package_name="unattended", message="unattended %(version)s")
def cli() -> None:
    """Runs AG2 multi-agent workflows with nobody in the chat."""


for section in SECTIONS.values():
    for name, place, first_words in section:
        cli.add_command(DeferredCommand(name, place, first_words))


def run() -> None:
    """Runs the command; a user's mistake is one line on stderr, never a traceback."""
    # What starts it may have closed them.
    sys.stdout, sys.stderr = sys.stdout or _open_devnull(), sys.stderr or _open_devnull()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have letters that a terminal has not
    try:
        code: Any = cli.main(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, standalone_mode=False)
    except SystemExit:
        if (completing := sys.modules.get("ops.cli.completion")) is not None:  # of most commands it is part
            completing.exit_if_completed()
        raise
    except (click.Abort, KeyboardInterrupt):
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        if (said := _report_error(error)) is None:
            raise
        sys.exit(said)
    sys.exit(code if isinstance(code, int) else 0)


def _open_devnull() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _report_error(error: Exception) -> int | None:
    """The exit code; None of what is nobody's mistake but ours."""
    from ops.cli.error_messages import describe_error  # it knows errors of libraries that most commands do not need

    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return error.exit_code
    said = describe_error(error)
    if said is None:
        return None
    message, code = said
    click.echo(f"{PROGRAM}: {message}", err=True)
    if isinstance(error, OSError):
        from ops.presenters.times import discard_stdout

        discard_stdout()  # what could not be written would be tried again at the end
    return code
