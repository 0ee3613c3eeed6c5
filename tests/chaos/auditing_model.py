"""A model server that is the ledger's judge: it keeps what it was asked and what it has served, and audits on the way.

What an answer uses has a number of its own in it, so that each row of the ledger names the answer which it is of. At
each request the ledger must know already of this call, and of what became of every answer that the request shows.
"""

import asyncio
import json
import random
import re
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from accounting.usage import Tokens
from tests.chaos.auditing_replies import End, number_of, reply_to
from tests.http_server import http_server, read_request
from workers.store.run_store import RunStore

RUN = re.compile(r"run_[0-9A-Z]{26}")
AGENT = re.compile(r"You are (\w+)\.")
FAULTS = re.compile(r"faults:((?: \d+=\w+)*)")
SHOWN = re.compile(r"\b(?:answer|call)_(\d+)")
SLEEPER = "Sleeper"  # a call of this agent is never answered
FOR_EVER_S = 60.0
PROVIDERS = {"/v1/chat/completions": "openai", "/v1/responses": "openai_responses"}

Row = Mapping[str, Any]


@dataclass(slots=True)
class AuditedCall:
    """One request, and its answer. `nth`: of its run, from 0."""

    number: int
    nth: int
    run_id: str
    agent: str
    provider: str
    model: str
    end: End = "asked"
    tokens: Tokens | None = None
    characters: int = 0


@dataclass
class AuditingModel:
    store: RunStore
    chance: random.Random
    takes_s: tuple[float, float]
    url: str = ""
    on_asleep: Callable[[str], object] = str  # told of each run that asks for the sleeper
    calls: list[AuditedCall] = field(default_factory=list)
    by_run: dict[str, list[AuditedCall]] = field(default_factory=lambda: defaultdict(list))
    wrong: list[str] = field(default_factory=list)
    _faults: dict[str, Mapping[int, str]] = field(default_factory=dict)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        goes_on = True
        while goes_on:
            came = await read_request(reader)
            request = came.body.decode()
            asked = self._find_call(came.path, request)
            await self._audit(asked, request)
            goes_on = await self._answer(asked, json.loads(request), reader, writer)

    def _find_call(self, path: str, request: str) -> AuditedCall:
        run, agent = RUN.search(request), AGENT.search(request)
        if run is None or agent is None:
            self.wrong.append(f"nobody knows who asks: {request[:500]}")
            raise ConnectionError
        of_run = self.by_run[run[0]]
        model = json.loads(request)["model"]
        asked = AuditedCall(len(self.calls), len(of_run), run[0], agent[1], PROVIDERS[path], model)
        self.calls.append(asked)
        of_run.append(asked)
        if asked.nth == 0:
            said = FAULTS.search(request)
            faults = (each.split("=") for each in said[1].split()) if said else ()
            self._faults[asked.run_id] = {int(nth): fault for nth, fault in faults}
        return asked

    async def _audit(self, call: AuditedCall, request: str) -> None:
        """A row before each call, and each answer recorded before it is used."""
        requests = sum((each.agent, each.model) == (call.agent, call.model) for each in self.by_run[call.run_id])
        rows = await self.store.database["usage"].find({"run_id": call.run_id}).to_list(None)
        known = sum((row["agent"], row["model"]) == (call.agent, call.model) for row in rows)
        if known < requests:
            self.wrong.append(f"{call}: asked {requests} times, with {known} rows")
        unknown = self._missing_answers({int(number) for number in SHOWN.findall(request)}, rows)
        if unknown:
            self.wrong.append(f"{call}: uses answers {sorted(unknown)}, of which there is no row")

    def _missing_answers(self, shown: Collection[int], rows: Collection[Row]) -> Collection[int]:
        quiet = {number for number in shown if self.calls[number].tokens is None}
        unknown = {*shown} - quiet - {number_of(row) for row in rows if row["status"] == "reported"}
        estimated = sum(row["status"] == "estimated" for row in rows)
        return unknown if len(quiet) <= estimated else unknown | quiet

    async def _answer(
        self, call: AuditedCall, request: Mapping[str, Any], reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> bool:
        """Whether the connection may be used again."""
        fault = self._faults[call.run_id].get(call.nth)
        caller = f"You are {call.agent}. {call.run_id}."
        reply = reply_to(call.number, caller, request, fault=fault)
        call.tokens, call.characters, call.end = reply.tokens, reply.characters, "gone"
        takes_s = self.chance.uniform(*self.takes_s)
        if call.agent == SLEEPER:
            takes_s = FOR_EVER_S
            self.on_asleep(call.run_id)
        for piece in reply.pieces:
            if not await _stays_connected(reader, takes_s / len(reply.pieces)):
                return False
            writer.write(piece)
            if piece is reply.pieces[-1]:
                call.end = reply.end
            await writer.drain()
        return reply.end != "broken"


async def _stays_connected(reader: asyncio.StreamReader, seconds: float) -> bool:
    """Waits so long, unless whoever asked goes meanwhile: nothing more is said before the answer is there."""
    try:
        async with asyncio.timeout(seconds):
            await reader.read(1)
    except TimeoutError:
        return True
    return False


@asynccontextmanager
async def auditing_model(
    store: RunStore, chance: random.Random, *, takes_s: tuple[float, float]
) -> AsyncIterator[AuditingModel]:
    model = AuditingModel(store, chance, takes_s)
    async with http_server(model.serve) as address:
        model.url = f"{address}/v1"
        yield model
