"""The `unattended` command: its sections, its exit codes, and errors as one line."""

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
from ops.cli.exit_codes import EXIT_INTERRUPTED

COMPLETE_VARIABLE = "_UNATTENDED_COMPLETE"

SECTIONS: Mapping[str, Sequence[tuple[str, str, str]]] = {
    "Start here": (
        ("demo", "ops.cli.local_commands:demo", "Demonstrates the product on this machine in two minutes."),
        ("up", "ops.cli.local_commands:up", "Starts servers and all roles on this machine, until Ctrl-C."),
        ("doctor", "ops.cli.local_commands:doctor", "Checks the installation, and prints how to fix each problem."),
        ("completion", "ops.cli.completion:completion", "Prints the script that completes commands with Tab."),
    ),
    "Packages": (
        ("packages", "ops.cli.packages.package_commands:packages", "Lists and shows packages, exports their schemas."),
        (
            "validate",
            "ops.cli.packages.validate_command:validate",
            "Checks packages: ready, with findings, or refused, and why.",
        ),
        ("run", "ops.cli.runs.local_run_command:run_locally", "Runs WORKFLOW in this process, without any service."),
        ("enqueue", "ops.cli.runs.enqueue_command:enqueue", "Starts one run of WORKFLOW on the workers."),
    ),
    "Runs and triggers": (
        ("runs", "ops.cli.groups:runs", "Lists, follows, answers and changes runs."),
        ("triggers", "ops.cli.groups:triggers", "Lists, fires, pauses and edits triggers."),
        ("usage", "ops.cli.usage.usage_command:usage", "Shows tokens and USD by app, workflow, model or time."),
    ),
    "Budgets, billing, API keys": (
        ("budgets", "ops.cli.groups:budgets", "Limits the tokens or USD of an app, workflow or run."),
        ("billing", "ops.cli.groups:billing", "Delivers usage to a billing endpoint, and exports it."),
        ("keys", "ops.cli.key_commands:keys", "Creates, lists and revokes API keys for /v1."),
    ),
    "Roles, one process each": (
        ("worker", "ops.cli.role_commands:worker", "Executes runs."),
        (
            "scheduler",
            "ops.cli.role_commands:scheduler",
            "Fires schedules; repairs lost wake-ups and runs of dead workers.",
        ),
        ("watcher", "ops.cli.role_commands:watcher", "Turns MongoDB changes into runs."),
        ("gateway", "ops.cli.role_commands:gateway", "Serves webhooks, forms, the API and the console over HTTP."),
        ("exporter", "ops.cli.role_commands:exporter", "Exports metrics of runs, queues and usage to Prometheus."),
    ),
}


class RootGroup(Group):
    """Exits with 0 when the reader of its output is gone, as `head` is after ten lines."""

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
        from ops.cli.output import discard_stdout

        discard_stdout()
        raise click.exceptions.Exit(0) from None


@click.group(
    cls=RootGroup,
    sections={title: [name for name, _, _ in section] for title, section in SECTIONS.items()},
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
    epilog="""
    Exit codes: 0 success; 1 failure, such as a failed run or an unknown id; 2 invalid arguments; 130 Ctrl-C.
    Every command that prints a report has --json. Help with examples: unattended COMMAND --help.
    """,
)
@click.version_option(package_name="unattended", message="unattended %(version)s")
def cli() -> None:
    """Runs AG2 multi-agent workflows with nobody in the chat."""


for section in SECTIONS.values():
    for name, target, summary in section:
        cli.add_command(DeferredCommand(name, target, summary))


def run() -> None:
    """Run the command line; report a user's mistake as one line on stderr, never as a traceback."""
    # A parent process may have closed them.
    sys.stdout, sys.stderr = sys.stdout or _open_devnull(), sys.stderr or _open_devnull()
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # the terminal's encoding may lack letters of a name
    try:
        code: Any = cli.main(prog_name=PROGRAM, complete_var=COMPLETE_VARIABLE, standalone_mode=False)
    except SystemExit:
        if (completion := sys.modules.get("ops.cli.completion")) is not None:
            completion.exit_if_completed()
        raise
    except (click.Abort, KeyboardInterrupt):
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        if (exit_code := _report_error(error)) is None:
            raise
        sys.exit(exit_code)
    sys.exit(code if isinstance(code, int) else 0)


def _open_devnull() -> TextIO:
    return Path(os.devnull).open("w", encoding="utf-8")


def _report_error(error: Exception) -> int | None:
    """Print the error and return its exit code; None for a defect of the program itself."""
    from ops.cli.error_messages import describe_error  # imports the errors of libraries that few commands need

    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        error.show()
        return error.exit_code
    described = describe_error(error)
    if described is None:
        return None
    message, code = described
    click.echo(f"{PROGRAM}: {message}", err=True)
    if isinstance(error, OSError):
        from ops.cli.output import discard_stdout

        discard_stdout()  # otherwise Python tries to write the rest again at exit
    return code
