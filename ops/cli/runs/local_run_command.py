"""The command that runs a package in this process: the way to try one, and to test one from a shell."""

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
from ops.cli.json_argument import JsonArgumentError, parse_json_object
from ops.cli.output import json_option
from workers.logs import configure_logging, redact_logs, redact_streams
from workers.process.event_loop import WorkerLoop
from workers.settings import Settings, load_settings
from workflows.context.redaction import Redactor

if TYPE_CHECKING:
    from workers.local_run.report import RunReport
    from workers.local_run.request import Request

EXIT_FAILURE, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130
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
@click.option("--app", "app_id", default="local", show_default=True, help="Whose run it is.")
@click.option(
    "--chat-id", help="The chat's id, so that a RandomPattern chooses the same speakers again. Default: the run's."
)
@click.option("--input", "input_text", default="{}", help="JSON, or @file with JSON in it.")
@click.option("--script", type=_FILE_TYPE, help="A file with answers, for every model that the package names.")
@click.option("--production", is_flag=True, help="As ENVIRONMENT=production: environment variables are absent.")
@click.option("--models", type=_FILE_TYPE, help="The models file. Default: the one a worker uses.")
@click.option("--message", help="In place of the package's initial message.")
@click.option(
    "--context", "context_text", default="{}", help="Values of variables, as JSON or @file, instead of reading them."
)
@click.option("--ui-responses", "ui_text", default="{}", help="What people answer, by tool and key, as JSON or @file.")
@click.option("--verbose", is_flag=True, help="With the traceback of whatever failed in the package's own code.")
@json_option
def run_locally(workflow: str, as_json: bool, verbose: bool, **options: Any) -> None:
    """Runs WORKFLOW in this process, without any service.

    No database is read or written. WORKFLOW is the name of a package, or its directory. Exit code 0 when the run
    succeeded, 1 otherwise.

    \b
    With --script no key is needed. Its file has an entry for each call of an agent's model:
      answers: {Clerk: [{text: REFUND}], Writer: [{text: Dear customer.}]}
    """
    from workers.local_run.request import NotStartedError, WrongUseError

    try:
        raise SystemExit(_run_package(workflow, options, as_json=as_json, verbose=verbose))
    except NotStartedError as error:
        code, text = EXIT_FAILURE, str(error)
    except (WrongUseError, JsonArgumentError) as error:
        code, text = EXIT_USAGE, str(error)
    click.echo(f"unattended: {text}", err=True)
    raise SystemExit(code)


def _run_package(workflow: str, options: dict[str, Any], *, as_json: bool, verbose: bool) -> int:
    from ops.cli.live_view import LiveView
    from workers.local_run.chosen import chosen_package
    from workers.local_run.request import NobodyWatches
    from workers.local_run.run import open_local_run, with_flags

    request = _parse_request(options)
    settings = with_flags(load_settings(models=options["models"]), production=options["production"])
    package = chosen_package(workflow, settings)
    redactor = Redactor()
    reports: list[RunReport] = []

    async def work(out: TextIO) -> None:
        view = NobodyWatches(_print_note) if as_json else LiveView(out, note=_print_note, verbose=verbose)
        async with open_local_run(package, request, settings, watch=view, redactor=redactor) as run:
            try:
                await run.work()
            finally:  # also of a run that was cut off
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
    from workers.local_run.request import Request, WrongUseError

    if options["script"] is not None and options["models"] is not None:
        raise WrongUseError("--script answers for every model; leave --models out")
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
        return  # who reads is gone


def _configure_logging(settings: Settings, redactor: Redactor, *, verbose: bool) -> None:
    """Quiet unless somebody asks: the view says what happens, and of what failed where."""
    asked = "UNATTENDED_LOG_LEVEL" in settings.environ
    configure_logging(role="run", log_format=settings.log_format, log_level=settings.log_level if asked else "warning")
    redact_logs(redactor)
    if settings.verbose_debug and not asked:
        logging.getLogger("workers.steps.context_log").setLevel(logging.INFO)
    if not (asked or verbose):
        for handler in logging.getLogger().handlers:
            handler.addFilter(lambda record: record.levelno >= logging.ERROR or not record.exc_info)


@contextmanager
def reserve_stdout() -> Iterator[TextIO]:
    """For good in this process: a thread that a tool has left behind may print at any time."""
    stdout = sys.stdout
    try:
        number, errors = stdout.fileno(), sys.stderr.fileno()
    except (OSError, ValueError):  # no file, as in a test
        with redirect_stdout(sys.stderr):
            yield stdout
        return
    stdout.flush()
    own = os.fdopen(os.dup(number), "w", encoding=stdout.encoding, errors="backslashreplace")
    os.dup2(errors, number)
    try:
        with redirect_stdout(sys.stderr):
            yield own
    finally:
        with suppress(BrokenPipeError):  # who reads is gone
            own.close()
