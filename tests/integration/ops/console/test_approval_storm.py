"""A storm of approvals: random replies, answers by all channels, some twice, and killed workers."""

import asyncio
import json
import random
import sys
from collections import Counter
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ops.processes.supervisor import PROGRAM
from tests.chaos.lengths import by_length
from tests.integration.ops.console.conftest import Console, Visit
from tests.integration.stage import Document, Stage, relay, wait_until
from workers.settings import as_environment

pytestmark = [pytest.mark.integration, pytest.mark.chaos, pytest.mark.timeout(by_length(short=120, long=400))]

RUNS = by_length(short=10, long=80)
KILLS = by_length(short=3, long=25)
AMOUNTS = (25, 50, 75, 100)
STANDING = {"Approve": [{"when": "arguments.amount <= `25`", "answer": {"choice": "yes"}}]}

PAY = """
from workflows.tools import use_ui_tool

async def pay(amount: int, run_id: str = "", **runtime) -> str:
    answer = await use_ui_tool("Approve", {"amount": amount}, title=f"Pay {amount} EUR?", choices=["yes", "no"])
    if answer["choice"] == "yes":
        with open(PAID, "a") as paid:
            paid.write(f"{runtime['turn_idempotency_key']} {amount}\\n")
    return answer["choice"]

def look_up(n: int) -> str:
    return f"looked up {n}"
"""


class ApprovalStorm:
    def __init__(self, console: Console, visit: Visit, key: str, seed: int) -> None:
        self.console, self.visit, self.key = console, visit, key
        self.stage: Stage = console.stage
        self.dice = random.Random(seed)
        self.paid = self.stage.folder / "paid"
        self.ways: Counter[str] = Counter()
        self.kills = 0

    def package(self, number: int) -> str:
        """A package whose model asks for several payments at once, calls other tools, and asks again."""
        name, agent = f"Vault{number}", f"Payer{number}"
        source = PAY.replace('run_id: str = "", ', "").replace("PAID", repr(str(self.paid)))
        tools = [{"agent": agent, "file": "pay.py", "function": each} for each in ("pay", "look_up")]
        self.stage.package(name, {**relay(name, [agent]), "tools": {"tools": tools}, "tools/pay.py": source})
        return name

    def replies(self) -> list[Document]:
        def call() -> Document:
            if self.dice.random() < 0.3:
                return {"name": "look_up", "arguments": {"n": self.dice.randint(1, 3)}}
            return {"name": "pay", "arguments": {"amount": self.dice.choice(AMOUNTS)}}

        rounds = [[call() for _ in range(self.dice.randint(1, 3))] for _ in range(self.dice.randint(1, 3))]
        return [*({"tool_calls": calls, "delay_s": 0.05} for calls in rounds), {"text": "settled"}]

    async def answer(self, run_id: str, question: Document) -> None:
        """Answer by one channel, and maybe again by another; the second answer must change nothing."""
        choice = self.dice.choice(["yes", "yes", "no"])
        for way in self.dice.sample([self._by_console, self._by_http, self._by_command], self.dice.randint(1, 2)):
            self.ways[way.__name__] += await way(run_id, question, choice)
            choice = self.dice.choice(["yes", "no"])

    async def _by_console(self, run_id: str, question: Document, choice: str) -> bool:
        fields = {"form_token": await self.visit.token(), "question": question["id"], "choice": choice}
        return (await self.visit.send(f"/console/runs/{run_id}/answer", **fields)).status_code == 303

    async def _by_http(self, run_id: str, question: Document, choice: str) -> bool:
        body = {"question": question["number"], "responses": {"Approve": {"choice": choice}}, "by": "the boss"}
        headers = {"authorization": f"Bearer {self.key}"}
        client = self.console.gateway.client
        return (await client.post(f"/v1/runs/{run_id}/answer", json=body, headers=headers)).status_code == 200

    async def _by_command(self, run_id: str, question: Document, choice: str) -> bool:
        options = ("--question", str(question["number"]), "--response", f"pay.choice={choice}")
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", str(PROGRAM), "runs", "answer", run_id, *options),
            env=as_environment(replace(self.stage.settings, environ={})),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.DEVNULL,
            stderr=asyncio.subprocess.DEVNULL,
        )
        return await process.wait() == 0

    async def people(self, run_ids: list[str]) -> bool:
        """Answer some of the waiting questions; return whether all runs have ended."""
        going = {"_id": {"$in": run_ids}, "state": {"$nin": ["succeeded", "failed", "cancelled", "parked"]}}
        runs = await self.stage.store.runs.find(going, {"state": 1, "questions": 1}).to_list(None)
        waiting = [(run["_id"], each) for run in runs if run["state"] == "needs_human" for each in run["questions"]]
        for run_id, question in self.dice.sample(waiting, min(len(waiting), 4)):
            await self.answer(run_id, question)
        return not runs

    async def kill_workers(self) -> None:
        for _ in range(KILLS):
            await asyncio.sleep(self.dice.uniform(0.5, 2.0))
            worker = self.stage.workers[-1]
            worker.kill()
            await worker.wait()
            self.kills += 1
            await self.stage.start_worker()


async def test_whatever_happens_nothing_is_paid_that_was_not_approved(console: Console) -> None:
    stage = console.stage
    visit = await console.visit("Grace", may=("approve",))
    await visit.allow_actions()
    storm = ApprovalStorm(
        console, visit, await console.key("ops", may=("approve",)), seed=by_length(short=18, long=1818)
    )
    names = [storm.package(number) for number in range(RUNS)]
    stage.answers({f"Payer{number}": storm.replies() for number in range(RUNS)})
    storm.paid.touch()
    await stage.start_worker()
    run_ids = [
        (await stage.accept(name, ui_responses=STANDING if number % 2 else {})).run_id
        for number, name in enumerate(names)
    ]
    killing, reconciler = asyncio.create_task(storm.kill_workers()), stage.reconciler()

    async def all_ended() -> bool:
        await reconciler.run_pass()
        return await storm.people(run_ids) and killing.done()

    try:
        await wait_until("all runs have ended", all_ended, within_s=by_length(short=100, long=360))
        await killing
    finally:
        killing.cancel()
        with suppress(asyncio.CancelledError):
            await killing
    runs = [await stage.run(run_id) for run_id in run_ids]
    assert {run["state"] for run in runs} == {"succeeded"}, [run["outcome"] for run in runs]
    assert set(storm.ways) == {"_by_console", "_by_http", "_by_command"}
    assert_each_paid_once(runs, storm.paid, storm.kills)


def assert_each_paid_once(runs: list[Document], paid: Path, kills: int) -> None:
    """Every payment was approved with its amount; only a killed worker's call is repeated."""
    made = Counter(tuple(line.split()) for line in paid.read_text().splitlines())
    spare = kills
    for run in runs:
        approved: Counter[Any] = Counter()
        for answer in run["answers"]:
            [response] = answer["responses"].values()
            assert answer.get("standing", False) == (answer["by"] == "trigger test")
            approved[answer["question"]["arguments"]["amount"]] += response["choice"] == "yes"
        ids = [answer["question"]["id"] for answer in run["answers"]]
        assert len(set(ids)) == len(ids), "one question, one answer"
        for (key, amount), times in made.items():
            if key.startswith(f"{run['_id']}:"):
                assert approved[int(amount)] > 0, json.dumps(run["answers"], default=str)
                spare -= max(times - approved[int(amount)], 0)
        assert all(made[f"{run['_id']}:1", str(amount)] >= times for amount, times in approved.items() if times)
    assert spare >= 0
