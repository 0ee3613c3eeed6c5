"""`unattended run`: runs a package in this process, to try it or to test it from a shell."""

import asyncio
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO

import click

from ops.cli.command import command
from ops.cli.completion import complete_with, find_workflows
from ops.cli.exit_codes import EXIT_FAILURE, EXIT_INTERRUPTED, EXIT_USAGE
from ops.cli.output import exit_with_error, json_option
from ops.cli.parameters import JsonArgumentError, parse_json_object
from workers.logs import configure_logging, redact_logs, redact_streams
from workers.process.event_loop import WorkerLoop
from workers.settings import Settings, load_settings
from workflows.context.redaction import Redactor

if TYPE_CHECKING:
    from workers.local_run.local_request import Request
    from workers.local_run.report import RunReport

_FILE_TYPE = click.Path(path_type=Path)


@command(
    "run",
    examples=[
        'unattended run DailyDigest --input \'{"region": "eu"}\'',
        "unattended run workflows/Refunds --script refund.yaml --message 'Refund order 7'",
        "unattended run Refunds --context @context.json --json",
    ],
    related=["validate", "enqueue"],
)
@click.argument("workflow", shell_complete=complete_with(find_workflows))
@click.option("--app", "app_id", default="local", show_default=True, help="App of the run.")
@click.option(
    "--chat-id", help="Id of the chat; the same id lets a RandomPattern repeat its choices. Default: the run's id."
)
@click.option("--input", "input_text", default="{}", help="Input of the run: JSON, or @file.")
@click.option("--script", type=_FILE_TYPE, help="File with scripted answers for all models of the package.")
@click.option("--production", is_flag=True, help="Run as with ENVIRONMENT=production: without environment variables.")
@click.option("--models", type=_FILE_TYPE, help="Models file. Default: UNATTENDED_MODELS.")
@click.option("--message", help="Message that replaces the package's initial message.")
@click.option(
    "--context",
    "context_text",
    default="{}",
    help="Values of context variables, which are then not loaded: JSON, or @file.",
)
@click.option("--ui-responses", "ui_text", default="{}", help="Answers of people by tool and key: JSON, or @file.")
@click.option("--verbose", is_flag=True, help="Print tracebacks of errors in the package's own code.")
@json_option
def run_locally(workflow: str, as_json: bool, verbose: bool, **options: Any) -> None:
    """Runs WORKFLOW in this process, without any service.

    It reads and writes no database. WORKFLOW is the name of a package, or its directory. Exit code 0 when the run
    succeeds, else 1.

    \b
    With --script no API key is needed. The file lists an answer for each model call of an agent:
      answers: {Clerk: [{text: REFUND}], Writer: [{text: Dear customer.}]}
    """
    from workers.local_run.local_request import NotStartedError, WrongUseError

    try:
        raise SystemExit(_run_package(workflow, options, as_json=as_json, verbose=verbose))
    except NotStartedError as error:
        code, text = EXIT_FAILURE, str(error)
    except (WrongUseError, JsonArgumentError) as error:
        code, text = EXIT_USAGE, str(error)
    exit_with_error(text, code)


def _run_package(workflow: str, options: dict[str, Any], *, as_json: bool, verbose: bool) -> int:
    from ops.cli.live_view import LiveView
    from workers.local_run.local_request import NoteWatch
    from workers.local_run.package_lookup import chosen_package
    from workers.local_run.run_package import open_local_run, with_flags

    request = _parse_request(options)
    settings = with_flags(load_settings(models=options["models"]), production=options["production"])
    package = chosen_package(workflow, settings)
    redactor = Redactor()
    reports: list[RunReport] = []

    async def work(out: TextIO) -> None:
        view = NoteWatch(_print_note) if as_json else LiveView(out, note=_print_note, verbose=verbose)
        async with open_local_run(package, request, settings, watch=view, redactor=redactor) as run:
            try:
                await run.work()
            finally:  # report an interrupted run too
                reports.append(run.report())
                if isinstance(view, LiveView):
                    view.end(reports[0])
                else:
                    _print_json(reports[0], out)

    with reserve_stdout() as out, redact_streams(redactor):
        _configure_logging(settings, redactor, verbose=verbose)
        try:
            with asyncio.Runner(loop_factory=WorkerLoop) as runner:
                runner.run(work(out))
        except KeyboardInterrupt:
            return EXIT_INTERRUPTED
    return 0 if reports[0].succeeded else EXIT_FAILURE


def _parse_request(options: dict[str, Any]) -> "Request":
    from workers.local_run.local_request import Request, WrongUseError

    if options["script"] is not None and options["models"] is not None:
        raise WrongUseError("--script replaces all models; remove --models")
    return Request(
        input=_parse_json_option(options["input_text"], "--input"),
        context=_parse_json_option(options["context_text"], "--context"),
        ui_responses=_parse_json_option(options["ui_text"], "--ui-responses"),
        script=options["script"],
        message=options["message"],
        app_id=options["app_id"],
        chat_id=options["chat_id"],
    )


def _parse_json_option(text: str, option: str) -> dict[str, Any]:
    try:
        return parse_json_object(text)
    except JsonArgumentError as error:
        raise JsonArgumentError(f"{option}: {error}") from None


def _print_note(text: str) -> None:
    click.echo(f"note: {text}", err=True)


def _print_json(report: "RunReport", out: TextIO) -> None:
    value = report.as_json()
    ascii_only = "utf" not in (out.encoding or "").lower()
    try:
        text = json.dumps(value, default=str, ensure_ascii=ascii_only, indent=2, allow_nan=False)
    except ValueError:  # JSON has no NaN, which a tool may have put into the context
        value = json.loads(json.dumps(value, default=str), parse_constant=str)
        text = json.dumps(value, ensure_ascii=ascii_only, indent=2)
    try:
        click.echo(text, file=out)
    except BrokenPipeError:
        return  # the reader closed the pipe


def _configure_logging(settings: Settings, redactor: Redactor, *, verbose: bool) -> None:
    """Log warnings only, unless UNATTENDED_LOG_LEVEL is set: the view already shows turns and errors."""
    has_level = "UNATTENDED_LOG_LEVEL" in settings.environ
    log_level = settings.log_level if has_level else "warning"
    configure_logging(role="run", log_format=settings.log_format, log_level=log_level)
    redact_logs(redactor)
    if settings.verbose_debug and not has_level:
        logging.getLogger("workers.steps.context_log").setLevel(logging.INFO)
    if not (has_level or verbose):
        for handler in logging.getLogger().handlers:
            handler.addFilter(lambda record: record.levelno >= logging.ERROR or not record.exc_info)


@contextmanager
def reserve_stdout() -> Iterator[TextIO]:
    """Send everything that tools print to stderr, for the rest of the process; yield the real stdout.

    It is never restored, since a thread that a tool leaves behind may print at any time.
    """
    stdout = sys.stdout
    try:
        stdout_fd, stderr_fd = stdout.fileno(), sys.stderr.fileno()
    except (OSError, ValueError):  # not a file, as in a test
        with redirect_stdout(sys.stderr):
            yield stdout
        return
    stdout.flush()
    real_stdout = os.fdopen(os.dup(stdout_fd), "w", encoding=stdout.encoding, errors="backslashreplace")
    os.dup2(stderr_fd, stdout_fd)
    try:
        with redirect_stdout(sys.stderr):
            yield real_stdout
    finally:
        with suppress(BrokenPipeError):  # the reader closed the pipe
            real_stdout.close()
