"""The invariants: what must be true of every accepted run once the chaos is over, whoever was killed when.

Each claim leaves one line in the run's history: its token, from when to when, and the last turn it had committed.
From these lines follows who owned the run at any time, and how often a turn may have been asked for.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from pymongo.errors import PyMongoError

from tests.chaos.counting_model import CallCounts
from tests.chaos.own_servers import waiting_messages
from tests.integration.stage import Stage, wait_until

Document = Mapping[str, Any]

MAX_WORKER_LOSSES = 5
# A command's time is that of its beginning. One that has to wait, as on a new primary, takes what was given back since.
COMMAND_WAITS = timedelta(seconds=5)


@dataclass
class Verdict:
    """What a storm cost, and whatever is wrong."""

    runs: int = 0
    takeovers: int = 0  # after a worker was lost
    handed_back: int = 0
    extra_model_calls: int = 0
    rows_missing: int = 0  # answers that died with the worker which had asked
    wrong: list[str] = field(default_factory=list)

    def numbers(self) -> dict[str, int]:
        return {
            "runs": self.runs,
            "takeovers": self.takeovers,
            "handed back": self.handed_back,
            "extra model calls": self.extra_model_calls,
            "rows that died with a worker": self.rows_missing,
        }


async def judge_runs(
    stage: Stage, run_ids: Collection[str], agents: Mapping[str, int], call_counts: CallCounts | None = None
) -> Verdict:
    """`agents`, in order, with the model calls that a turn of each takes. `asked` is what the model server counted;
    without it the ledger has to tell."""
    verdict = Verdict(runs=len(run_ids))
    runs = {run["_id"]: run async for run in stage.store.runs.find()}
    turns = await _by_run(stage, "turns")
    rows = await _by_run(stage, "usage")
    for run_id in run_ids:
        run = runs.pop(run_id, None)
        if run is None:
            verdict.wrong.append(f"{run_id}: accepted, and not there")
            continue
        if call_counts is None:
            counted = Counter(row["agent"] for row in rows.get(run_id, ()))
        else:
            counted = Counter({agent: call_counts[run_id, agent] for agent in agents})
        own_turns = sorted(turns.get(run_id, ()), key=lambda turn: turn["number"])
        _judge(run, own_turns, rows.get(run_id, ()), counted, agents, verdict)
    verdict.wrong += [f"{run_id}: nobody was told of it" for run_id in runs]
    return verdict


async def wait_for_calm(stage: Stage, call_counts: CallCounts, *, within_s: float) -> None:
    """Every run has ended, no message is left, and whoever was paused has seen that its runs are gone."""
    await wait_until("every run has ended", lambda: _all_runs_ended(stage), within_s=within_s)
    await wait_until("no message is left", lambda: _nothing_waits(stage), within_s=60)
    await wait_until("nobody asks the model", lambda: _no_new_calls(call_counts), within_s=30)


async def _all_runs_ended(stage: Stage) -> bool:
    try:
        return await stage.store.runs.find_one({"state": {"$in": ["queued", "running"]}}, {"_id": 1}) is None
    except PyMongoError:
        return False


async def _nothing_waits(stage: Stage) -> bool:
    return await waiting_messages(stage) == 0


async def _no_new_calls(call_counts: CallCounts) -> bool:
    before = call_counts.total()
    await asyncio.sleep(1)
    return call_counts.total() == before


async def _by_run(stage: Stage, collection: str) -> dict[str, list[Document]]:
    found: dict[str, list[Document]] = {}
    async for document in stage.store.database[collection].find():
        found.setdefault(document["run_id"], []).append(document)
    return found


def _judge(
    run: Document,
    turns: Sequence[Document],
    rows: Sequence[Document],
    counted: Counter[str],
    agents: Mapping[str, int],
    verdict: Verdict,
) -> None:
    history = run["history"]
    faults = [
        *_end(run, agents),
        *_owners(run),
        *_turns(run, turns, agents),
        *_calls(history, counted, agents),
        *_rows(history, rows, counted),
    ]
    verdict.wrong += [f"{run['_id']}: {fault}; history {_short(history)}" for fault in faults]
    verdict.takeovers += sum(line["ended"] == "worker_lost" for line in history)
    verdict.handed_back += sum(line["ended"] == "handed_back" for line in history)
    verdict.extra_model_calls += counted.total() - sum(agents.values())
    verdict.rows_missing += max(counted.total() - len(rows), 0)


def _end(run: Document, agents: Mapping[str, int]) -> list[str]:
    end = (run["state"], run["turn"], run["attempt"], run["lease"]["owner"])
    expected = ("succeeded", len(agents), 1, None)
    parked = [f"{run['worker_losses']} losses"] if run["worker_losses"] >= MAX_WORKER_LOSSES else []
    return parked + ([] if end == expected else [f"ended as {end}, {run['outcome']}"])


def _owners(run: Document) -> list[str]:
    """One after the other: tokens grow, and none begins before the one before has ended. The lease has the last one."""
    history = run["history"]
    faults = []
    for before, after in itertools.pairwise(history):
        if not before["token"] < after["token"]:
            faults.append(f"token {after['token']} after {before['token']}")
        if after["from"] < before["until"] - COMMAND_WAITS:
            faults.append(f"token {after['token']} began before {before['token']} had ended")
        if after["turn"] < before["turn"]:
            faults.append(f"token {after['token']} fell behind turn {before['turn']}")
    if not history or history[-1]["token"] != run["lease"]["token"]:
        faults.append(f"the end is not by the newest token, {run['lease']['token']}")
    return faults


def _turns(run: Document, turns: Sequence[Document], agents: Mapping[str, int]) -> list[str]:
    """1 to n, each once and in order, each by the owner under whom the run moved on to it."""
    told = [(turn["number"], turn["agent"]) for turn in turns]
    faults = [] if told == list(enumerate(agents, start=1)) else [f"turns {told}"]
    tokens = [turn["token"] for turn in turns]
    movers = [_mover(run["history"], turn["number"]) for turn in turns]
    return faults + ([] if tokens == movers else [f"turns by {tokens}, moved on by {movers}"])


def _mover(history: Sequence[Document], number: int) -> int | None:
    return next((line["token"] for line in history if line["turn"] >= number), None)


def _calls(history: Sequence[Document], counted: Counter[str], agents: Mapping[str, int]) -> list[str]:
    """A turn is asked for once, and once more for each owner that was lost while it was in flight."""
    lost_in = Counter(line["turn"] + 1 for line in history[:-1])
    return [
        f"{agent} was asked {counted[agent]} times"
        for number, (agent, calls) in enumerate(agents.items(), start=1)
        if not calls <= counted[agent] <= calls * (1 + lost_in[number])
    ]


def _rows(history: Sequence[Document], rows: Sequence[Document], counted: Counter[str]) -> list[str]:
    """Every answer that arrived is in the ledger: only a worker that died may take one call per run with it."""
    cut_off = len(history) - 1
    answered = sum(row["ok"] for row in rows)
    if answered > counted.total() or counted.total() - len(rows) > cut_off:
        return [f"{len(rows)} rows, {answered} of them answered, for {counted.total()} calls"]
    return []


def _short(history: Sequence[Document]) -> list[tuple[Any, ...]]:
    return [(line["token"], line["turn"], line["ended"], line["reason"][:60]) for line in history]
