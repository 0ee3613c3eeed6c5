"""Checkpoints: plain JSON of known versions, from which a chat resumes unchanged."""

import json
import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat, never
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule, write_tool
from workflows.chat.chat_state import Conversation
from workflows.chat.history.checkpoint import VERSION, Checkpoint, CheckpointError, RunCounters, read_progress
from workflows.chat.history.transcript import Turn
from workflows.chat.package_code.incidents import Incident
from workflows.outcome import Outcome, OutcomeError, OutcomeKind
from workflows.package.normal_form.package_model import Package

TOOLS = '''
import datetime, decimal, enum, uuid
from collections import Counter, defaultdict, OrderedDict
from pydantic import BaseModel


class Colour(enum.Enum):
    RED = "red"


class Order(BaseModel):
    number: int = 1
    lines: list[int] = []


def cycle():
    circle = [1]
    circle.append(circle)
    return circle


ODD = {
    "date": lambda: datetime.datetime(2026, 1, 1),
    "tuple": lambda: (1, (2, 3)),
    "set": lambda: {"b", "a"},
    "order": lambda: Order(lines=[1, 2]),
    "large": lambda: 2**70,
    "nan": lambda: float("nan"),
    "cycle": cycle,
    "counter": lambda: Counter("aab"),
    "defaults": lambda: defaultdict(list, a=[1]),
    "ordered": lambda: OrderedDict(b=1, a=2),
    "keys": lambda: {1: "a", None: "b", ("x",): "c"},
    "enum": lambda: Colour.RED,
    "bytes": lambda: b"abc",
    "object": lambda: object,
    "half": lambda: "half \\ud83d",
    "nested": lambda: {"at": [datetime.date(2026, 1, 1), {"in": {1}}]},
    "list": lambda: [1],
    "text": lambda: "text",
    "none": lambda: None,
}


def put(name: str, kind: str, context_variables):
    context_variables.set(name, ODD[kind]())
    return kind


def alias(name: str, other: str, context_variables):
    context_variables.set(other, context_variables.get(name))


def grow(name: str, context_variables):
    """Does what depends on what the value is."""
    value = context_variables.get(name)
    if isinstance(value, (list, Counter, set, dict)):
        {list: lambda: value.append(2), set: lambda: value.add("c")}.get(
            type(value), lambda: value.update({"grown": len(value)}))()
    return type(value).__name__


def look(context_variables):
    return {name: f"{type(value).__name__} {value}" for name, value in sorted(context_variables.items())}


def fail(context_variables):
    context_variables.set("half_done", True)
    raise RuntimeError("it failed")
'''
NAMES = ["x", "y", "z"]
KINDS = ["date", "tuple", "set", "order", "large", "nan", "cycle", "counter", "defaults", "ordered", "keys", "enum",
         "bytes", "object", "half", "nested", "list", "text", "none"]  # fmt: skip
names = st.sampled_from(NAMES)
calls = st.one_of(
    st.builds(
        lambda name, kind: {"name": "put", "arguments": {"name": name, "kind": kind}}, names, st.sampled_from(KINDS)
    ),
    st.builds(lambda name, other: {"name": "alias", "arguments": {"name": name, "other": other}}, names, names),
    st.builds(lambda name: {"name": "grow", "arguments": {"name": name}}, names),
    st.sampled_from([{"name": "look"}, {"name": "fail"}, {"name": "nosuch"}]),
)
usage = st.fixed_dictionaries({"input": st.integers(0, 9), "output": st.integers(0, 9)})
rounds = st.builds(lambda call, usage: {"tool_calls": [call], "usage": usage}, calls, usage)
failures = st.sampled_from([{"error": {"status": 503}}, {"error": 429}])
answers = st.builds(lambda text, usage: {"text": text, "usage": usage}, st.sampled_from(["NEXT", "one", "two"]), usage)
turns = st.tuples(st.lists(rounds | failures, max_size=3), answers).map(lambda parts: [*parts[0], parts[1]])
scripts = st.lists(turns, min_size=3, max_size=3).map(lambda each: [entry for turn in each for entry in turn])


@cache
def package() -> Package:
    folder = Path(tempfile.mkdtemp()) / "Odd"
    write_tool(folder, "odd.py", TOOLS)
    tools = [
        {"agent": ["A", "B"], "file": "odd.py", "function": name} for name in ("put", "alias", "grow", "look", "fail")
    ]
    moved = {"type": "agent_text", "agent": "B", "match": {"equals": "NEXT"}}
    variables = {
        **{name: {"source": {"type": "state"}} for name in NAMES},
        "moved": {"type": "boolean", "source": {"type": "state", "default": False, "triggers": [moved]}},
        "seen": {"source": {"type": "computed", "computation": "[x, y]", "inputs": ["x", "y"]}},
    }
    made = load(
        folder,
        orchestrator={**ORCHESTRATOR, "limits": {"max_turns": 6, "tool_calls": 8}},
        context_variables={"definitions": variables, "agents": {"A": [*NAMES, "seen"], "B": NAMES}},
        tools=tools,
        handoffs={"handoff_rules": [rule("A", "B"), rule("B", "terminate", "${x} == 'text'"), rule("B", "A")]},
    )
    assert not made.is_refused, made.findings
    return made


async def run_to_end(chat: Chat, *, stop: bool) -> tuple[Outcome, ChatRecorder, RunCounters]:
    """Runs to the end as workers do: with another attempt after a transient failure.

    With `stop`, another worker runs after each turn."""
    kept, last = ChatRecorder(), None
    for _ in range(60):
        conversation = chat.conversation(kept)
        count_as_the_ledger(conversation, last)
        turns = len(kept.saved)
        stopping = (lambda before=turns: len(kept.saved) > before) if stop else never
        outcome = await chat.take_turns(conversation, kept, stopping=stopping)
        last = conversation.counters
        if outcome.kind is not OutcomeKind.HANDED_BACK and not outcome.transient:
            return outcome, kept, last
    raise AssertionError(outcome)


def count_as_the_ledger(conversation: Conversation, last: RunCounters | None) -> None:
    """Counts the cost of an attempt that stored nothing else."""
    if last is not None:
        now = conversation.counters
        now.failed, now.model_calls, now.tokens = dict(last.failed), last.model_calls, last.tokens


def comparable(recorder: ChatRecorder) -> list[Any]:
    """Returns everything except times."""
    checkpoints = [json.loads(each) for each in recorder.saved]
    for checkpoint in checkpoints:
        checkpoint["counters"].pop("worked_s")
        for turn in checkpoint["turns"]:
            turn.pop("duration_s")
            for error in turn["errors"]:
                error.pop("traceback")
    return checkpoints


@pytest.mark.design("D1-10", "D4-90")
@given(st.fixed_dictionaries({"A": scripts, "B": scripts}))
async def test_a_chat_that_stops_after_every_turn_goes_on_as_if_it_had_not(script: dict[str, Any]) -> None:
    made = package()
    chat = Chat(
        build_chat(made, {"answers": script, "default": {"text": "NEXT"}}, made.folder), {"n": 0, "moved": False}
    )

    whole, kept, counters = await run_to_end(chat, stop=False)
    again, resumed, same = await run_to_end(chat, stop=True)

    assert again == whole
    assert comparable(resumed) == comparable(kept)
    assert replace(same, worked_s=0) == replace(counters, worked_s=0)


TURN = Turn(
    "A", "text", [{"text": None, "tool_calls": [{"id": "1", "name": "t", "arguments": "{}"}]}], {"x": 1}, "B",
    {"input": 1}, 0.5, (Incident("tool t", "RuntimeError", "m", "t", "A", 1),),
)  # fmt: skip
ENDED = Outcome(OutcomeKind.WORKFLOW_FAILED, "so", OutcomeError("LimitReached", "so", "A", 3))


@pytest.mark.parametrize("ended", [None, ENDED])
def test_a_checkpoint_is_the_same_after_it_was_kept(ended: Outcome | None) -> None:
    counters = RunCounters(1, 2, 3, 4, 5.5, {"A": 1}, {"B": 2}, 6)
    checkpoint = Checkpoint((TURN,), {"x": [1, {"y": None}]}, "B", counters, ended)

    kept = json.loads(json.dumps(checkpoint.as_json(), allow_nan=False))

    assert Checkpoint.from_json(kept) == checkpoint


@pytest.mark.parametrize("version", [None, 0, 2, "1"])
def test_a_version_that_is_not_known_is_refused(version: Any) -> None:
    kept = {**Checkpoint((), {}, None).as_json(), "version": version}

    with pytest.raises(CheckpointError, match=r"has version .* knows 1; let a newer worker resume it"):
        Checkpoint.from_json(kept)
    with pytest.raises(CheckpointError):
        read_progress(kept)


def test_counters_of_another_version_are_no_obstacle() -> None:
    kept = {"version": VERSION, "counters": {"model_calls": 3, "later": {"a": 1}}, "later": True}

    assert read_progress(kept) == (RunCounters(model_calls=3), None)


def test_nothing_kept_is_a_beginning() -> None:
    assert read_progress(None) == (RunCounters(), None)


async def test_after_a_turn_a_tool_finds_what_was_kept_and_not_what_it_put_there(tmp_path: Path) -> None:
    write_tool(
        tmp_path,
        "t.py",
        "import datetime\n\ndef t(context_variables):\n    context_variables['x'] = datetime.date(2026, 1, 1), [{}]\n",
    )
    made = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    chat = Chat(build_chat(made, {"answers": {"A": [{"tool_calls": [{"name": "t"}]}, {"text": "ok"}]}}, tmp_path))

    _, kept = await chat.run()

    assert chat.last is not None
    assert chat.last.context["x"] == kept.context(1)["x"] == ["2026-01-01", [{}]]
