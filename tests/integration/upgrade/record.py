"""Records what a version leaves in MongoDB and Redis, for the test of the version after it.

    python -m tests.integration.upgrade.record COMMIT

It runs that commit's own roles and commands on servers of its own, brings runs into every state, kills the roles, and
writes `data/`: a file a collection, a document a line, in MongoDB's extended JSON. Some two minutes. Record once for
each version that a deployment may be upgraded from; the test says which cases it looks for.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
from bson import json_util
from pymongo import MongoClient
from redis import Redis

from ops.embedded.embedded_servers import embedded_servers
from ops.free_ports import find_free_address
from tests.integration.stage import write_package
from tests.integration.upgrade import deployment
from tests.integration.upgrade.released_version import ReleasedVersion, unpack_version
from tests.quick_yaml import dumped

DATA = Path(__file__).with_name("data")
Document = dict[str, Any]


class OldDeployment:
    """Roles and commands of one version on one pair of servers."""

    def __init__(self, version: ReleasedVersion, folder: Path, settings: Mapping[str, str]) -> None:
        self.address = find_free_address()
        self.dose = folder / "dose"
        self.dose.write_text("deadly")
        more = {"UNATTENDED_LISTEN": str(self.address), "RECORDED_POISON": str(self.dose)}
        self._env = version.environment(**settings, **more)
        self._version = version
        self._folder = folder
        self._roles: dict[str, subprocess.Popen[bytes]] = {}
        self._client: MongoClient[Document] = MongoClient(settings["UNATTENDED_MONGODB_URL"])
        self.database = self._client[deployment.DATABASE]
        self.redis = Redis.from_url(settings["UNATTENDED_REDIS_URL"], decode_responses=True)

    def start(self, role: str) -> None:
        log_path = self._folder / f"{role}-{time.monotonic_ns()}.log"
        with log_path.open("wb") as log:
            self._roles[role] = subprocess.Popen(
                self._version.command(role), env=self._env, cwd=self._folder, stdout=log, stderr=log
            )
        process = self._roles[role]

        def is_ready() -> bool:
            assert process.poll() is None, log_path.read_text()
            return f"{role}_ready" in log_path.read_text()

        wait_until(f"the {role} is ready", is_ready)

    def wait_for_death(self, role: str) -> None:
        self._roles.pop(role).wait(60)

    def kill(self, role: str) -> None:
        process = self._roles.pop(role)
        process.send_signal(signal.SIGKILL)
        process.wait()

    def close(self) -> None:
        for role in list(self._roles):
            self.kill(role)
        self._client.close()
        self.redis.close()

    def logs(self) -> str:
        ends = (f"== {log.name}\n{log.read_text()[-3000:]}\n" for log in sorted(self._folder.glob("*.log")))
        return "".join(ends)

    def run(self, *arguments: str) -> Any:
        done = subprocess.run(
            [*self._version.command(*arguments), "--json"],
            env=self._env,
            cwd=self._folder,
            capture_output=True,
            check=False,
        )
        assert done.returncode == 0, (arguments, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def enqueue(self, workflow: str, case: str, *, app: str = "acme") -> None:
        self.run("enqueue", workflow, "--app", app, "--dedupe", case)

    def case(self, name: str) -> Document:
        return self.database["runs"].find_one({"trigger.id": name}) or {}

    def wait_for(self, case: str, state: str, **fields: Any) -> None:
        expected = {"state": state, **fields}
        wait_until(
            f"{case} is {expected}", lambda: expected.items() <= self.case(case).items(), seen=lambda: self.case(case)
        )


def wait_until(
    what: str, condition: Callable[[], bool], *, within_s: float = 60, seen: Callable[[], Any] = lambda: None
) -> None:
    give_up_at = time.monotonic() + within_s
    while not condition():
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"not within {within_s} s: {what}; {seen()}")
        time.sleep(0.05)


def record(old: OldDeployment) -> Document:
    meta = _set_up(old)
    for role in ("scheduler", "watcher", "gateway", "exporter", "worker"):
        old.start(role)
    _lose_two_workers(old)
    old.start("worker")
    _bring_runs_to_rest(old)
    meta |= _call_the_gateway(old, meta["key"])
    _hold_runs(old)
    for role in ("watcher", "gateway", "exporter", "scheduler"):
        old.kill(role)
    # What nothing has rolled up, released or after_wakeups yet.
    old.enqueue("Short", "not-rolled-up")
    old.wait_for("not-rolled-up", "succeeded")
    old.enqueue("Limited", "retrying")
    old.wait_for("retrying", "queued", attempt=2)
    old.kill("worker")
    old.run("runs", "cancel", old.case("cancelled-late")["_id"])
    for case in ("queued-1", "queued-2", "queued-3"):
        old.enqueue("Short", case)
    return meta


def _set_up(old: OldDeployment) -> Document:
    key = old.run("keys", "create", "operator", "--may", "approve")
    reader = old.run("keys", "create", "reader", "--app", "acme", "--read-only")
    old.run("budgets", "set", "--app", "thrifty", "--per", "total", "--tokens", "120")
    old.run("budgets", "set", "--app", "acme", "--per", "total", "--tokens", "1000000", "--note", "all of acme")
    old.run("budgets", "set", "--app", "acme", "--per", "hour", "--usd", "50", "--soft")
    old.run("budgets", "set", "--app", "*", "--per", "run", "--tokens", "100000")
    for name, spec in deployment.RUN_TIME_TRIGGERS.items():
        old.run("triggers", "create", json.dumps(spec), "--workflow", "Short", "--app", "acme")
        if name == "frozen":
            old.run("triggers", "pause", "Short/frozen@acme", "--note", "kept for later")
    old.run("triggers", "pause", "Short/stopped", "--note", "since the move")
    return {"key": key["key"], "reader": reader["key"]}


def _lose_two_workers(old: OldDeployment) -> None:
    """The third worker gives the run a process of its own, in which it hangs."""
    old.enqueue("Poison", "isolated", app="lab")
    for losses in (1, 2):
        old.wait_for_death("worker")
        old.wait_for("isolated", "queued", worker_losses=losses)
        if losses == 1:
            old.start("worker")
    old.dose.write_text("slow")


def _bring_runs_to_rest(old: OldDeployment) -> None:
    ends = {
        ("Short", "succeeded"): "succeeded",
        ("Visits", "visited"): "succeeded",
        ("Refused", "failed"): "failed",
        ("Down", "parked"): "parked",
        ("Till", "waiting"): "needs_human",
    }
    for workflow, case in ends:
        old.enqueue(workflow, case)
    for (_, case), state in ends.items():
        old.wait_for(case, state)
    old.enqueue("Till", "discarded")
    old.wait_for("discarded", "needs_human")
    old.run("runs", "discard", old.case("discarded")["_id"])
    old.wait_for("discarded", "cancelled")
    wait_until("the visit is followed", lambda: old.database["runs"].count_documents({"workflow": "Chain"}) == 1)


def _call_the_gateway(old: OldDeployment, key: str) -> Document:
    base = f"http://{old.address}"
    with httpx.Client(base_url=base, timeout=20) as client:
        bearer = {"authorization": f"Bearer {deployment.HOOK_SECRET}"}
        hook = client.post("/hooks/acme/Short/paid", json={"id": "order-1"}, headers=bearer)
        assert hook.status_code == 202, hook.text
        api = {"authorization": f"Bearer {key}", "idempotency-key": "recorded-1"}
        body = {"workflow": "Short", "app_id": "acme", "input": {}}
        started = client.post("/v1/runs", json=body, headers=api)
        assert started.status_code in (200, 201, 202), started.text
        login = client.post("/console/login", data={"key": key}, headers={"origin": base})
        assert login.status_code == 303, login.text
    cookies = {name: client.cookies[name] for name in client.cookies}
    return {"hooked": hook.json()["run_id"], "posted": started.json()["run_id"], "cookies": cookies}


def _hold_runs(old: OldDeployment) -> None:
    """Runs held by each kind of limit, and two that run: one after two turns, one in its first."""
    old.enqueue("Short", "spends", app="thrifty")
    old.wait_for("spends", "succeeded")
    old.enqueue("Short", "held-by-budget", app="thrifty")
    old.wait_for("held-by-budget", "queued", hold="budget")
    old.enqueue("Long", "crashed", app="busy")
    old.wait_for("crashed", "running", turn=2)
    for workflow, case, app in (("Short", "held-by-cap", "busy"), ("Long", "held-by-workflow", "acme")):
        old.enqueue(workflow, case, app=app)
        old.wait_for(case, "queued", hold="concurrency")
    old.enqueue("Doomed", "cancelled-late")
    old.wait_for("cancelled-late", "running")
    orders, carts = old.database["orders"], old.database["carts"]
    wait_until(
        "the watcher has positions",
        lambda: old.database["streams"].count_documents({"resume_token": {"$ne": None}}) >= 1,
    )
    orders.insert_one({"_id": "order-1", "state": "new"})
    runs = old.database["runs"]
    wait_until("the order is packed", lambda: runs.count_documents({"workflow": "Orders", "state": "running"}) == 1)
    orders.update_one({"_id": "order-1"}, {"$set": {"state": "paid"}})
    wait_until("the next change waits", lambda: runs.count_documents({"workflow": "Orders", "state": "queued"}) == 1)
    old.enqueue("Short", "starts", app="paced")
    old.wait_for("starts", "succeeded")
    old.enqueue("Short", "held-by-rate", app="paced")
    old.wait_for("held-by-rate", "queued", hold="rate")
    old.enqueue("Short", "cancelled", app="busy")
    old.wait_for("cancelled", "queued", hold="concurrency")
    old.run("runs", "cancel", old.case("cancelled")["_id"])
    old.wait_for("cancelled", "cancelled")
    carts.insert_one({"_id": "cart-1", "items": 1})
    wait_until("the cart waits", lambda: runs.count_documents({"workflow": "Quiet", "state": "queued"}) == 1)
    ticks = {"trigger.name": "ticking", "state": "succeeded"}
    wait_until("the clock ticked", lambda: runs.count_documents(ticks) >= 2)
    billed = {"state": "pending"}
    wait_until("a batch is to be posted", lambda: old.database["outbox"].count_documents(billed) >= 1)


def write(old: OldDeployment, meta: Document) -> None:
    for file in DATA.glob("*.json"):
        file.unlink()
    indexes: Document = {}
    for name in sorted(old.database.list_collection_names()):
        documents = [*old.database[name].find().sort("_id", 1)]
        lines = [json_util.dumps(each, json_options=json_util.RELAXED_JSON_OPTIONS) for each in documents]
        (DATA / f"{name}.json").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        indexes[name] = [dict(index) for index in old.database[name].list_indexes()]
    (DATA / "_indexes.json").write_text(json_util.dumps(indexes, indent=1) + "\n", encoding="utf-8")
    messages = [str(each) for each in old.redis.lrange(deployment.DATABASE, 0, -1)]
    (DATA / "_messages.json").write_text(json.dumps(messages, indent=1) + "\n", encoding="utf-8")
    (DATA / "_recording.json").write_text(json.dumps(meta, indent=1) + "\n", encoding="utf-8")


def _record_and_write(old: OldDeployment, commit: str) -> None:
    try:
        meta = record(old)
    except BaseException:
        sys.stderr.write(old.logs())
        raise
    sha = subprocess.run(["git", "rev-parse", commit], capture_output=True, check=True, text=True).stdout.strip()
    write(old, {"commit": sha, "recorded_at": datetime.now(UTC).isoformat(), **meta})


async def main(commit: str) -> None:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="unattended-recording-")))
        version = stack.enter_context(unpack_version(commit))
        for name, files in deployment.packages(deployment.DATABASE).items():
            write_package(folder / "packages", name, files)
        (folder / "answers.yaml").write_text(dumped({"answers": deployment.ANSWERS, "default": deployment.ANSWER}))
        prices = [{"provider": "*", "model": "*", "input": 1.0, "output": 2.0}]
        models = {"default": {"provider": "script", "file": "answers.yaml"}}
        (folder / "models.yaml").write_text(dumped({"models": models, "prices": prices}))
        async with embedded_servers(folder / "servers") as services:
            settings = deployment.environment(
                folder, mongodb_url=services.mongodb_url or "", redis_url=services.redis_url or ""
            )
            old = OldDeployment(version, folder, settings)
            stack.callback(old.close)
            await asyncio.to_thread(_record_and_write, old, commit)
            old.close()


if __name__ == "__main__":
    os.umask(0o022)
    asyncio.run(main(sys.argv[1]))
