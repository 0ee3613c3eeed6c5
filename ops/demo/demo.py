"""`unattended demo`: four triggers, four runs and their usage on this machine.

1. Real servers and all five roles start in a new directory, on free ports.
2. A schedule fires, an order is paid in MongoDB, a signed webhook and a form arrive.
3. Each starts a run; the agents' turns are printed as they are committed.
4. Two tables and the metrics URL are printed; then every process is stopped and the directory removed.
"""

import asyncio
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from http.client import HTTPException
from pathlib import Path
from typing import Any

import click

from accounting.totals.usage_query import UsageFilter, usage_totals
from ops.cli.exit_codes import EXIT_FAILURE, EXIT_INTERRUPTED
from ops.cli.output import print_json, print_table
from ops.demo.demo_scenario import EXPECTED_TRIGGER_TYPES, SECRET_VARIABLE, DemoScenario, new_secret, prepare_packages
from ops.embedded.embedded_error import EmbeddedError
from ops.embedded.embedded_servers import embedded_servers
from ops.free_ports import find_free_address
from ops.presenters.amounts import format_exact_usd
from ops.processes.role_processes import role_children
from ops.processes.supervisor import Supervisor
from workers.settings import Settings, load_settings
from workers.store.run import AT_REST, TERMINAL, RunState
from workers.store.run_filter import RunFilter
from workers.store.run_store import RunStore, connect

TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.15
ENDED_STATES = {state.value for state in TERMINAL | AT_REST}


class DemoFailedError(Exception):
    """A condition was not met in time; the text names it."""


async def run_demo(data_dir: Path | None, *, as_json: bool) -> int:
    folder = data_dir or Path(tempfile.mkdtemp(prefix="unattended-demo-"))
    _stop_on_sigterm()
    try:
        report = await _run_scenario(folder)
    except asyncio.CancelledError:
        print_line("stopped; no process is left running")
        code = EXIT_INTERRUPTED
    except DemoFailedError as failure:
        print_line(f"the demo failed: {failure}\nlogs of all roles: {folder / 'logs'}")
        return EXIT_FAILURE  # the directory stays, for its logs
    except EmbeddedError:
        if data_dir is None and not (folder / "logs").exists():  # no role was started, so there are no logs to keep
            await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        raise
    else:
        code = _report_result(report, folder, as_json=as_json)
    if data_dir is None and code != EXIT_FAILURE:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
    return code


def _report_result(report: Mapping[str, Any], folder: Path, *, as_json: bool) -> int:
    print_summary(report, as_json=as_json)
    if not as_json:
        click.echo(f"\nmetrics (while it ran): {report['metrics_url']}")
    if all(run["state"] == RunState.SUCCEEDED for run in report["runs"]):
        return 0
    print_line(f"not every run succeeded; logs of all roles: {folder / 'logs'}")
    return EXIT_FAILURE


def print_line(line: str) -> None:
    click.echo(line, err=True)


def _stop_on_sigterm() -> None:
    task = asyncio.current_task()
    if task is not None:
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)


async def _run_scenario(folder: Path) -> dict[str, Any]:
    began = datetime.now(UTC)  # --data-dir may hold runs of an earlier demo
    print_line(f"starting Redis and MongoDB in {folder} …")
    async with embedded_servers(folder) as services:
        settings = services.fill(_demo_settings(folder))
        print_line(f"Redis {services.redis_version}, MongoDB {services.mongodb_version}; starting the five roles …")
        async with (
            Supervisor(role_children(settings), log_dir=folder / "logs", grace_s=5),
            _open_scenario(settings) as scenario,
        ):
            metrics_url = f"http://{settings.metrics_listen}/metrics"
            await wait_until(scenario.is_gateway_ready, "the gateway answers")
            print_line(f"hooks and forms: http://{settings.listen}/   metrics: {metrics_url}")
            async with _show_turns(scenario.database):
                await _cause_events(scenario)
                runs = await _wait_ended_runs(scenario.database, since=began)
            totals = await usage_totals(scenario.database, ["app_id"], UsageFilter(since=began))
            return make_summary(runs, [row.as_json() for row in totals], metrics_url=metrics_url)


def _demo_settings(folder: Path) -> Settings:
    """Return settings that inherit nothing of a real installation."""
    (folder / "logs").mkdir(parents=True, exist_ok=True)
    packages = prepare_packages(folder)
    inherited = {name: value for name, value in load_settings().environ.items() if not name.startswith("UNATTENDED_")}
    inherited.pop("ENVIRONMENT", None)
    settings = Settings(
        packages=(packages,),
        models=packages / "models.yaml",
        data_dir=folder,
        listen=find_free_address(),
        metrics_listen=find_free_address(),
        concurrency=20,
        lease_s=10,  # short, so that a viewer can kill -9 the worker and watch the takeover
        environ={**inherited, SECRET_VARIABLE: new_secret()},
    )
    return replace(settings, environment="development")


@asynccontextmanager
async def _open_scenario(settings: Settings) -> AsyncIterator[DemoScenario]:
    database = connect(settings.mongodb_url or "", database=settings.database)
    try:
        yield DemoScenario(settings.listen, database, settings.environ[SECRET_VARIABLE])
    finally:
        await database.client.close()


async def _cause_events(scenario: DemoScenario) -> None:
    # The watcher opens its stream at "now", and would miss a document that was inserted earlier.
    await wait_until(lambda: _is_stream_open(scenario.database), "the watcher reads the shop's changes")
    order_id = await scenario.pay_order()
    print_line(f"· MongoDB: {order_id} was paid")
    await scenario.close_day()
    print_line("· webhook: the warehouse closed the day (delivered twice, as senders do)")
    await scenario.request_follow_up(order_id)
    print_line("· form: support asks for a follow-up")
    print_line("· clock: the schedule fires every ten seconds")


async def _is_stream_open(database: Any) -> bool:
    return await database["streams"].find_one({"resume_token": {"$ne": None}}) is not None


async def _wait_ended_runs(database: Any, *, since: datetime) -> Sequence[Mapping[str, Any]]:
    """Wait until a run of every trigger type has ended, and no run is in progress."""
    found: list[Mapping[str, Any]] = []

    async def all_ended() -> bool:
        found[:] = reversed(await RunStore(database).list(RunFilter(since=since)))
        kinds = {run["trigger"]["type"] for run in found if run["state"] in ENDED_STATES}
        return kinds >= set(EXPECTED_TRIGGER_TYPES) and all(run["state"] in ENDED_STATES for run in found)

    await wait_until(all_ended, f"a run of each kind ends ({', '.join(EXPECTED_TRIGGER_TYPES)})")
    return found


@asynccontextmanager
async def _show_turns(database: Any) -> AsyncIterator[None]:
    """Print turns as they are committed."""
    shown: set[str] = set()

    async def show_new() -> None:
        for turn in await RunStore(database).newest_turns():
            if turn["_id"] not in shown:
                shown.add(turn["_id"])
                text = " ".join(turn["text"].split())
                print_line(f"    {turn['run_id'][-6:]}  {turn['agent']:<14} {text[:80]}")

    async def follow() -> None:
        while True:
            await show_new()
            await asyncio.sleep(POLL_INTERVAL_S)

    task = asyncio.create_task(follow())
    try:
        yield
        await show_new()
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def wait_until(condition: Callable[[], Awaitable[bool]], description: str) -> None:
    try:
        async with asyncio.timeout(TIMEOUT_S):
            while not await condition():  # noqa: ASYNC110 -- another process changes it
                await asyncio.sleep(POLL_INTERVAL_S)
    except TimeoutError:
        raise DemoFailedError(f"waited {TIMEOUT_S:.0f} s until {description}") from None
    except (OSError, HTTPException, RuntimeError) as error:
        raise DemoFailedError(f"{description}: {error}") from None


def make_summary(
    runs: Sequence[Mapping[str, Any]], usage: Sequence[Mapping[str, Any]], *, metrics_url: str
) -> dict[str, Any]:
    return {
        "runs": [
            {
                "run_id": run["_id"],
                "app_id": run["app_id"],
                "workflow": run["workflow"],
                "trigger": {"type": run["trigger"]["type"], "name": run["trigger"]["name"]},
                "state": run["state"],
                "turns": run["turn"],
            }
            for run in runs
        ],
        "usage": [
            {name: row[name] for name in ("app_id", "input_tokens", "output_tokens", "cost_usd")} for row in usage
        ],
        "metrics_url": metrics_url,
    }


def print_summary(report: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(report)
        return
    print_table(
        "Runs",
        ["run", "app", "workflow", "trigger", "type", "state", "turns"],
        [
            [
                f"…{run['run_id'][-6:]}",  # a whole id would not fit a narrow terminal
                run["app_id"],
                run["workflow"],
                run["trigger"]["name"],
                run["trigger"]["type"],
                run["state"],
                run["turns"],
            ]
            for run in report["runs"]
        ],
    )
    print_table(
        "Tokens and USD per app",
        ["app", "input tokens", "output tokens", "USD"],
        [
            [row["app_id"], row["input_tokens"], row["output_tokens"], format_exact_usd(row["cost_usd"])]
            for row in report["usage"]
        ],
    )
