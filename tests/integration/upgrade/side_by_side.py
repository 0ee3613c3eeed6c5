"""Two versions on one MongoDB and one Redis: each role twice, and what one begins the other may finish.

    make upgrade FROM=<commit>

Deliveries reach the gateways of both versions, each of them twice: so a run is accepted by one version and recognised
by the other. Both clocks tick, both watchers stand by. A worker, a scheduler and a watcher of each version are killed
once. Then every run is judged as after a storm, by the model server's own count.
"""

import asyncio
import itertools
import json
import os
import shutil
import signal
import sys
import tempfile
from asyncio.subprocess import Process
from collections import Counter
from collections.abc import AsyncIterator, Collection
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx

from ops.free_ports import find_free_address
from tests.chaos.counting_model import counting_model, known_relay
from tests.chaos.invariants import judge_runs, wait_for_calm
from tests.chaos.own_servers import stage_of_its_own
from tests.integration.ops.command import unattended
from tests.integration.stage import Document, Stage, wait_until
from tests.integration.upgrade.released_version import THIS_VERSION, ReleasedVersion, UnknownCommitError, unpack_version
from workers.settings import as_environment

DELIVERIES, CHANGES, TICKS = 100, 20, 12
AGENTS = ["A", "B", "C"]
ANSWER_S = 0.15
SECRET = "a-bearer-of-both"
ROLES = ("worker", "scheduler", "watcher", "gateway")
RESTART_AFTER_S = 0.2


@dataclass
class Judgement:
    numbers: dict[str, int] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        numbers = [f"{name}: {number}" for name, number in self.numbers.items()]
        return [*numbers, *(f"WRONG: {fault}" for fault in self.wrong), "wrong" if self.wrong else "all is well"]


class Role:
    """A role of one version, started again when it dies."""

    def __init__(self, version: ReleasedVersion, role: str, stage: Stage) -> None:
        self.name, self.version = role, version
        settings = replace(stage.settings, listen=find_free_address(), concurrency=8, environ={})
        self.address = str(settings.listen)
        self.env = version.environment(**as_environment(settings), HOOK_SECRET=SECRET)
        self._folder = stage.folder
        self._log = stage.folder / f"{version.name}-{role}.log"
        self._task: asyncio.Task[None] | None = None
        self._process: Process | None = None
        self.pids: list[int] = []

    async def start(self) -> None:
        self._task = asyncio.create_task(self._keep_running())
        await wait_until(f"the {self.version.name} {self.name} is ready", self._is_ready, within_s=60)

    async def _is_ready(self) -> bool:
        assert len(self.pids) < 3, self.log()
        return f"{self.name}_ready" in self.log()

    def log(self) -> str:
        return self._log.read_text(encoding="utf-8", errors="replace") if self._log.exists() else ""

    async def _keep_running(self) -> None:
        while True:
            with self._log.open("ab") as log:
                self._process = await asyncio.create_subprocess_exec(
                    *self.version.command(self.name), env=self.env, cwd=self._folder, stdout=log, stderr=log
                )
            self.pids.append(self._process.pid)
            await self._process.wait()
            await asyncio.sleep(RESTART_AFTER_S)

    def kill(self) -> None:
        if self._process is not None and self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)

    async def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self.kill()
        if self._process is not None:
            await self._process.wait()


class BothVersions:
    def __init__(self, stage: Stage, versions: Collection[ReleasedVersion]) -> None:
        self._stage = stage
        self._roles = {(version.name, role): Role(version, role, stage) for version in versions for role in ROLES}

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        try:
            await asyncio.gather(*(role.start() for role in self._roles.values()))
            yield
        finally:
            await asyncio.gather(*(role.stop() for role in self._roles.values()))

    async def command(self, version: str, *arguments: str) -> None:
        role = self._roles[version, "gateway"]
        process = await asyncio.create_subprocess_exec(
            *role.version.command(*arguments),
            env=role.env,
            cwd=self._stage.folder,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        assert process.returncode == 0, out.decode()

    def gateway(self, version: str) -> str:
        return f"http://{self._roles[version, 'gateway'].address}"

    def version_of(self, owner: str) -> str:
        """Of a claim: an owner's name has its process's id."""
        pid = int(owner.split(":")[1])
        return next(version for (version, _), role in self._roles.items() if pid in role.pids)

    async def kill_in_mid_run(self, version: str) -> None:
        """The worker while it has runs that have taken a turn, and the clock and the watcher of the same version."""
        worker = self._roles[version, "worker"]

        async def is_busy() -> bool:
            running = await self._stage.store.runs.distinct("lease.owner", {"state": "running", "turn": {"$gte": 1}})
            return any(int(owner.split(":")[1]) == worker.pids[-1] for owner in running)

        await wait_until(f"the {version} worker is in mid-run", is_busy)
        for role in ("worker", "scheduler", "watcher"):
            self._roles[version, role].kill()

    def logs(self) -> str:
        return "\n".join(f"== {version} {name}\n{role.log()[-2500:]}" for (version, name), role in self._roles.items())


def _relay(database: str) -> dict[str, Any]:
    hook = {
        "name": "delivered",
        "type": "webhook",
        "apps": ["acme"],
        "verify": {"scheme": "bearer", "secret": "env:HOOK_SECRET"},
        "dedupe": "=id",
    }
    change = {"name": "changed", "type": "database_condition", "database": database, "collection": "orders"}
    return {**known_relay("Relay", AGENTS), "triggers": {"triggers": [hook, {**change, "apps": ["shop"]}]}}


def _clock(*, until: datetime) -> dict[str, Any]:
    """Each second; what a killed scheduler has missed is caught up with."""
    catch_up = {"grace": "60s", "policy": "all", "max": 100}
    clock = {"name": "ticking", "type": "schedule", "every": "1s", "overlap": "allow", "misfire": catch_up}
    return {**clock, "end": until.isoformat()}


async def run_side_by_side(old: ReleasedVersion, folder: Path) -> Judgement:
    async with AsyncExitStack() as stack:
        stage = await stack.enter_async_context(stage_of_its_own(folder, lease_s=4, republish_after_s=2))
        calls = stack.enter_context(counting_model(stage, takes_s=ANSWER_S))
        stage.package("Relay", _relay(stage.store.database.name))
        both = BothVersions(stage, (old, THIS_VERSION))
        await stack.enter_async_context(both.running())
        try:
            await wait_until("a watcher has a position", lambda: _has_position(stage))
            until = datetime.now(UTC).replace(microsecond=0) + timedelta(seconds=TICKS + 4)
            clock = json.dumps(_clock(until=until))
            await both.command("old", "triggers", "create", clock, "--workflow", "Relay", "--app", "clock")
            accepted, *_ = await asyncio.gather(_deliver(both), _change(stage), _kill_both(both, stage))
            await wait_until("the clock has ended", lambda: _is_past(until))
            await wait_for_calm(stage, calls, within_s=60)
            runs = await stage.store.runs.find().to_list(None)
            verdict = await judge_runs(stage, [run["_id"] for run in runs], dict.fromkeys(AGENTS, 1), calls)
            judgement = Judgement(verdict.numbers(), verdict.wrong)
            _judge_acceptance(judgement, runs, accepted)
            _judge_owners(judgement, runs, both)
            await _judge_totals(judgement, stage, calls.total())
        except (AssertionError, httpx.HTTPError):
            sys.stderr.write(both.logs())
            raise
        return judgement


async def _has_position(stage: Stage) -> bool:
    return await stage.store.database["streams"].find_one({"resume_token": {"$ne": None}}) is not None


async def _is_past(moment: datetime) -> bool:
    return datetime.now(UTC) > moment


async def _deliver(both: BothVersions) -> list[tuple[int, str, int, str]]:
    """Each to both: the answers of the first and of the second, as status and run."""
    versions, answers = ("old", "new"), []
    headers = {"authorization": f"Bearer {SECRET}"}
    async with httpx.AsyncClient(timeout=20, headers=headers) as client:
        for number in range(DELIVERIES):
            first, second = versions if number % 2 else versions[::-1]
            responses = [
                await client.post(f"{both.gateway(version)}/hooks/acme/Relay/delivered", json={"id": f"d{number}"})
                for version in (first, second)
            ]
            ids = [answer.json().get("run_id", answer.text) for answer in responses]
            answers.append((responses[0].status_code, ids[0], responses[1].status_code, ids[1]))
            await asyncio.sleep(0.05)
    return answers


async def _change(stage: Stage) -> None:
    for number in range(CHANGES):
        await stage.store.database["orders"].insert_one({"_id": f"order-{number}"})
        await asyncio.sleep(0.4)


async def _kill_both(both: BothVersions, stage: Stage) -> None:
    for version, ended in (("new", 30), ("old", 75)):

        async def is_time(ended: int = ended) -> bool:
            return await stage.store.runs.count_documents({"state": "succeeded"}) >= ended

        await wait_until(f"{ended} runs have ended", is_time)
        await both.kill_in_mid_run(version)


def _judge_acceptance(judgement: Judgement, runs: list[Document], accepted: list[tuple[int, str, int, str]]) -> None:
    by_type = {kind: [run for run in runs if run["trigger"]["type"] == kind] for kind in _types(runs)}
    for number, (status, run_id, again, same_id) in enumerate(accepted):
        if (status, again) != (202, 200) or run_id != same_id:
            judgement.wrong.append(f"delivery {number} was answered {status} {run_id}, then {again} {same_id}")
    expected = {"webhook": DELIVERIES, "database_condition": CHANGES}
    counts = {kind: len(by_type.get(kind, ())) for kind in expected}
    if counts != expected:
        judgement.wrong.append(f"runs {counts} for {expected}")
    ticks = sorted(run["trigger"]["nominal_at"] for run in by_type.get("schedule", ()))
    steps = Counter(later - earlier for earlier, later in itertools.pairwise(ticks))
    if len(ticks) < TICKS / 2 or steps != {timedelta(seconds=1): len(ticks) - 1}:
        judgement.wrong.append(f"{len(ticks)} ticks, at distances {steps}")
    judgement.numbers |= {"ticks": len(ticks), "accepted without format": sum(_was_old(run) for run in runs)}


def _types(runs: list[Document]) -> set[str]:
    return {run["trigger"]["type"] for run in runs}


def _was_old(run: Document) -> bool:
    """Neither accepted nor ever claimed by a version that knows formats."""
    return "format" not in run


def _judge_owners(judgement: Judgement, runs: list[Document], both: BothVersions) -> None:
    owners = [[both.version_of(line["owner"]) for line in run["history"]] for run in runs]
    ended = Counter(versions[-1] for versions in owners)
    changed = sum(len({*versions}) > 1 for versions in owners)
    for version in ("old", "new"):
        judgement.numbers[f"ended by the {version} version"] = ended[version]
        if not ended[version]:
            judgement.wrong.append(f"the {version} version has ended no run")
    judgement.numbers["begun by one and ended by the other"] = changed
    if not judgement.numbers["takeovers"]:
        judgement.wrong.append("no worker was killed in mid-run")


async def _judge_totals(judgement: Judgement, stage: Stage, calls: int) -> None:
    """A row is there before its call: each call has one, and a worker may have been killed between the two."""
    rows = await stage.store.database["usage"].count_documents({})
    judgement.numbers |= {"model calls": calls, "ledger rows": rows}
    if not calls <= rows <= calls + judgement.numbers["takeovers"]:
        judgement.wrong.append(f"{rows} rows for {calls} calls")

    async def is_whole() -> bool:
        return (await unattended(stage, "usage", "--verify")).code == 0

    try:
        await wait_until("the totals are those of the ledger", is_whole)
    except AssertionError as error:
        judgement.wrong.append(str(error))


async def main(commit: str) -> int:
    try:
        with unpack_version(commit) as old, tempfile.TemporaryDirectory(prefix="unattended-upgrade-") as folder:
            judgement = await run_side_by_side(old, Path(folder))
    except UnknownCommitError as error:
        sys.stderr.write(f"{commit}: {error}\n")
        return 2
    sys.stdout.write("\n".join(judgement.lines()) + "\n")
    return bool(judgement.wrong)


if __name__ == "__main__":
    for name in [name for name in os.environ if name.startswith("UNATTENDED_")]:
        del os.environ[name]
    if shutil.which("git") is None or len(sys.argv) != 2:
        sys.exit("usage: make upgrade FROM=<commit>; it needs git")
    sys.exit(asyncio.run(main(sys.argv[1])))
