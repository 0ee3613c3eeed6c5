"""The `unattended` command. Exit codes: 0 good, 1 said no, 2 wrong use."""

import io
import sys
from typing import Any

import click

from ops.cli.deferred import Deferred

WRONG_USE = 2
INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(package_name="unattended", message="unattended %(version)s")
def cli() -> None:
    """Runs AG2 multi-agent workflows with nobody in the chat.

    \b
    Start here:
      unattended demo      four triggers, four runs and the bill, in two minutes
      unattended up        servers and all roles on this machine
      unattended doctor    what would break, and what to do about it
    """


for name, place, first_words in (
    (
        "demo",
        "ops.cli.machine:demo",
        "Everything on this machine: a schedule, a MongoDB change, a webhook and a form start runs; then the bill.",
    ),
    ("up", "ops.cli.machine:up", "Servers and all roles on this machine, until Ctrl-C."),
    (
        "doctor",
        "ops.cli.machine:doctor",
        "Checks settings, Redis, MongoDB, packages, models and ports; says what to do about each problem.",
    ),
    (
        "validate",
        "ops.cli.validate:validate",
        "Checks packages: each is ready, has findings, or is refused, with reasons.",
    ),
    (
        "run",
        "ops.cli.run:run_locally",
        "Runs WORKFLOW in this process, without any service: no database is read or written.",
    ),
    ("enqueue", "ops.cli.manage:enqueue", "Starts one run of WORKFLOW by hand, on the workers."),
    ("runs", "ops.cli.runs.group:runs", "What ran, what runs, and what came of it."),
    ("triggers", "ops.cli.triggers.group:triggers", "Why things run."),
    (
        "usage",
        "ops.cli.usage.command:usage",
        "Tokens and USD, summed from the ledger: each model call of each run is in it once.",
    ),
    (
        "billing",
        "ops.cli.billing.group:billing",
        "What is posted to whoever bills the apps, and exports of the ledger.",
    ),
    ("budgets", "ops.cli.budgets.group:budgets", "What may be spent: tokens or USD, by an app, a workflow or a run."),
    ("packages", "ops.cli.inspect_packages:packages", "What can run."),
    ("keys", "ops.cli.keys:keys", "API keys for /v1."),
    ("worker", "ops.cli.roles:worker", "Works on runs: claims them, holds the chats, records what they cost."),
    (
        "scheduler",
        "ops.cli.roles:scheduler",
        "Fires schedules and reconciles: lost wake-ups, dead workers' runs.",
    ),
    ("watcher", "ops.cli.roles:watcher", "Turns MongoDB changes into runs."),
    ("gateway", "ops.cli.roles:gateway", "Answers webhooks, forms and the API over HTTP."),
    ("exporter", "ops.cli.roles:exporter", "Shows runs, queues and usage of the whole cluster to Prometheus."),
):
    cli.add_command(Deferred(name, place, first_words))


def run() -> None:
    """Runs the command; a user's mistake is one line on stderr, never a traceback."""
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="backslashreplace")  # names may have letters that a terminal has not
    try:
        code: Any = cli.main(standalone_mode=False)
    except click.ClickException as error:
        error.show()
        sys.exit(WRONG_USE)
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except Exception as error:
        from ops.cli.explained import explained  # it knows errors of libraries that most commands do not need

        said = explained(error)
        if said is None:
            raise
        message, code = said
        click.echo(f"unattended: {message}", err=True)
        if isinstance(error, OSError):
            from ops.cli.runs.lines import nobody_reads

            nobody_reads()  # what could not be written would be tried again at the end
        sys.exit(code)
    sys.exit(code if isinstance(code, int) else 0)
