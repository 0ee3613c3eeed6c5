"""Effects of a run: the tool calls and write-backs that succeeded, which a replay would repeat.

They are read from its committed turns. Calls of an unfinished turn were recorded in the run by its worker. For a turn
of an earlier owner only the answers of models are known, not its calls.
"""

import json
from collections.abc import AsyncIterator, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from accounting.ledger.ledger_rows import COLLECTION
from workers.control.change_result import RefusedError
from workers.store.run import RunState
from workers.store.run_document import Document
from workers.store.run_reads import RunReads
from workers.store.run_store import RunStore

# The fields of a run document that its effects are read from.
EFFECT_FIELDS = ("state", "turn", "unfinished", "writes", "keys_of", "progress.counters.model_calls")
MAX_LISTED = 100
MAX_TEXT = 120
MAX_SENTENCES = 20
_TURN_FIELDS = (
    *("number", "agent", "writes", "events.tool_calls", "events.tool_results.id"),
    *("events.tool_results.failed", "events.tool_results.effects"),
)


@dataclass(frozen=True, slots=True)
class ToolEffect:
    """`outcome`: done, or unknown for a call that had begun when its turn was cut off."""

    turn: int
    agent: str
    tool: str
    arguments: str
    outcome: str = "done"

    def __str__(self) -> str:
        result = "was called" if self.outcome == "done" else "had begun, and what came of it is not known"
        return f"turn {self.turn}: {self.tool}({self.arguments}) {result}"


@dataclass(frozen=True, slots=True)
class WriteEffect:
    """`turn` is None for a write at the end of the run."""

    turn: int | None
    variable: str
    place: str
    key: str
    key_value: Any

    def __str__(self) -> str:
        when = "at its end" if self.turn is None else f"turn {self.turn}"
        return f"{when}: {self.variable} was written to {self.place}, {self.key} {_truncate(str(self.key_value))}"


@dataclass(slots=True)
class RunEffects:
    """The effects of a run, up to a bounded number.

    `unknown_turn` was begun and not finished, and the effects of its tools are not known. `more` counts effects that
    are not listed. `keys`: whether a replay gives tools the same idempotency keys, or new ones.
    """

    keys: str = "same"
    calls: list[ToolEffect] = field(default_factory=list)
    writes: list[WriteEffect] = field(default_factory=list)
    unknown_turn: int | None = None
    more: int = 0
    why_new: str = "since the run succeeded"

    def __bool__(self) -> bool:
        return bool(self.calls or self.writes or self.unknown_turn is not None)

    def add(self, effect: ToolEffect | WriteEffect) -> None:
        if len(self.calls) + len(self.writes) >= MAX_LISTED:
            self.more += 1
        elif isinstance(effect, ToolEffect):
            self.calls.append(effect)
        else:
            self.writes.append(effect)

    def sentences(self) -> Iterator[str]:
        """Yields a sentence for each effect, in the order of the turns."""
        effects: list[ToolEffect | WriteEffect] = [*self.calls, *self.writes]
        listed = sorted(effects, key=lambda effect: (effect.turn is None, effect.turn or 0))
        yield from map(str, listed[:MAX_SENTENCES])
        if more := self.more + len(listed) - len(listed[:MAX_SENTENCES]):
            yield f"and {more} more"
        if self.unknown_turn is not None:
            yield f"turn {self.unknown_turn} was not finished; what its tools did is not known"

    def about_keys(self) -> str:
        if self.keys == "new":
            return f"Its tools are given new idempotency keys, {self.why_new}: what they do is done once more."
        return (
            "Its tools are given the same turn_idempotency_key in the same turn: a service that knows the key does "
            "nothing twice, all others do it again."
        )

    def as_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "why_new"}


class WouldRepeatError(RefusedError):
    """A replay of the run would repeat its effects.

    The text lists them; the caller may confirm the replay.
    """

    def __init__(self, run_id: str, effects: RunEffects) -> None:
        listed = "; ".join(effects.sentences())
        super().__init__(f"{run_id} was not replayed, since a replay does again what it has done: {listed}")
        self.run_id = run_id
        self.effects = effects


async def find_effects(store: RunStore, run_id: str) -> RunEffects:
    run = await RunReads(store).find_fields(run_id, EFFECT_FIELDS)
    return RunEffects() if run is None else await read_effects(store, run)


async def read_effects(store: RunStore, run: Document) -> RunEffects:
    """Reads the effects of a run with at least EFFECT_FIELDS."""
    effects = RunEffects(keys="new" if has_new_keys(run) else "same")
    async for turn in RunReads(store).turn_fields(run["_id"], _TURN_FIELDS, up_to=run["turn"]):
        for call in _calls_of(turn):
            effects.add(call)
        for write in _writes_of(turn, turn["number"]):
            effects.add(write)
    unfinished = _unfinished_turn(run)
    for call in _unfinished_calls(unfinished):
        effects.add(call)
    for write in _writes_of(run, None):
        effects.add(write)
    async for token in _tokens_answered_later(store, run):
        if token not in unfinished.get("tokens", ()):
            effects.unknown_turn = run["turn"] + 1
    return effects


def has_new_keys(run: Document) -> bool:
    """Returns whether a replay gets new keys: a run that succeeded is repeated as a whole."""
    return bool(run["state"] == RunState.SUCCEEDED.value)


def _unfinished_turn(run: Document) -> Mapping[str, Any]:
    """Returns the record of the unfinished turn; empty if the turn was finished since then."""
    record = run.get("unfinished") or {}
    return record if record.get("turn", 0) > run["turn"] else {}


def _calls_of(turn: Document) -> Iterator[ToolEffect]:
    events = turn.get("events") or ()
    done = {
        result["id"]
        for event in events
        for result in event.get("tool_results") or ()
        if not result.get("failed") and result.get("effects") != "none"
    }
    for call in (call for event in events for call in event.get("tool_calls") or ()):
        if call["id"] in done:
            yield ToolEffect(turn["number"], turn["agent"], call["name"], _format_arguments(call["arguments"]))


def _unfinished_calls(unfinished: Mapping[str, Any]) -> Iterator[ToolEffect]:
    outcomes = {"done": "done", "begun": "unknown"}
    for call in unfinished.get("calls", ()):
        if outcome := outcomes.get(call["state"]):
            arguments = _format_arguments(call["arguments"])
            yield ToolEffect(unfinished["turn"], unfinished["agent"], call["tool"], arguments, outcome)


def _writes_of(document: Document, turn: int | None) -> Iterator[WriteEffect]:
    for write in document.get("writes") or ():
        place = f"{write['database']}.{write['collection']}"
        yield WriteEffect(turn, write["variable"], place, write["key"], write["key_value"])


async def _tokens_answered_later(store: RunStore, run: Document) -> AsyncIterator[int]:
    """Yields the lease tokens of model calls answered after the last committed turn."""
    counted = ((run.get("progress") or {}).get("counters") or {}).get("model_calls", 0)
    rows = await store.database[COLLECTION].find({"run_id": run["_id"]}, {"ok": 1}).to_list(None)
    places = sorted((int(row["_id"].split(":")[1]), int(row["_id"].split(":")[2]), bool(row["ok"])) for row in rows)
    for token, _, is_answered in places[counted:]:
        if is_answered:
            yield token


def _format_arguments(arguments: Any) -> str:
    """Formats arguments like a call.

    Arguments of a model are JSON text: the braces of the object are removed.
    """
    try:
        values = json.loads(arguments or "{}")
    except (ValueError, TypeError, RecursionError):
        return _truncate(str(arguments))
    if not isinstance(values, dict):
        return _truncate(str(arguments))
    return _truncate(", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in values.items()))


def _truncate(text: str) -> str:
    return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]}…"
