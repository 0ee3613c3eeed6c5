"""Events that change a state: tool calls, moments, hand-offs; also after a resume."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import ORCHESTRATOR, faults, load, rule, write_tool
from workflows.chat.chat_loop import close_conversation
from workflows.chat.model_call.exchange import Exchange
from workflows.outcome import Outcome, OutcomeKind

CODE = """
from workflows.tools import use_ui_tool

def pay(amount: int) -> str:
    if amount > 100:
        raise ValueError("too much")
    return "paid"

async def ask() -> str:
    return (await use_ui_tool("Card", {}))["choice"]

def write(context_variables):
    context_variables["phase"] = "written"

def raising(context_variables):
    raise ValueError("no")

class Broken:
    def __eq__(self, other):
        raise TypeError("it cannot be compared")

    def __str__(self):
        return "odd"

def break_(context_variables):
    context_variables["phase"] = Broken()
"""
TOOLS = [{"agent": "A", "file": "steps.py", "function": name} for name in ("pay", "ask")]
HUMAN = {**ORCHESTRATOR, "human_in_the_loop": True}
ONCE = [{"from": 0, "to": 1}, {"from": 1, "to": 2}, {"from": 2, "to": 3}]  # counts how often its trigger has fired


def phase(*transitions: Mapping[str, Any]) -> dict[str, Any]:
    source = {"type": "state", "default": "new", "transitions": list(transitions)}
    return {"phase": {"type": "string", "source": source}}


def counted_state(trigger: Mapping[str, Any]) -> dict[str, Any]:
    transitions = [{**each, "trigger": dict(trigger)} for each in ONCE]
    return {"count": {"type": "integer", "source": {"type": "state", "default": 0, "transitions": transitions}}}


def trail(*names: str) -> dict[str, Any]:
    """Returns the last hand-off among these, and the user and the end."""
    triggers = [
        {"type": "handoff", "from": source, "to": target, "value": f"{source}>{target}"}
        for source in (*names, "user")
        for target in (*names, "user", "terminate")
    ]
    return {"trail": {"type": "string", "source": {"type": "state", "default": "", "triggers": triggers}}}


def chat(folder: Path, definitions: Mapping[str, Any], rules: list[Any], *, answers: Any = None, **files: Any) -> Chat:
    write_tool(folder, "steps.py", CODE)
    package = load(
        folder,
        **{
            "tools": TOOLS,
            "context_variables": {"definitions": dict(definitions)},
            "handoffs": {"handoff_rules": rules} if rules else None,
            **files,
        },
    )
    assert not package.is_refused, faults(package)
    defaults = {name: variable.default for name, variable in package.variables.items()}
    return Chat(build_chat(package, {"answers": answers or {}, "default": {"text": "ok"}}, folder), defaults)


def changes(recorder: ChatRecorder, name: str) -> list[Any]:
    """Returns a variable's changes by turn; absent where it is unchanged."""
    return [turn.context_changes.get(name, "-") for turn in recorder.turns]


def call(tool: str, **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": tool, "arguments": arguments}]}


A_ENDS = [rule("A", "terminate")]


@pytest.mark.design("D4-44")
@pytest.mark.parametrize(
    ("entries", "fired"),
    [
        ([call("pay", amount=7)], True),
        ([call("pay", amount=700)], True),
        ([call("pay", amount="lots")], True),
        ([call("pay", amount=7), call("pay", amount=8)], True),
        ([call("payment", amount=7)], False),
        ([], False),
    ],
)
async def test_a_call_counts_whatever_came_of_it(tmp_path: Path, entries: list[Any], fired: bool) -> None:
    rules = [rule("A", "B", "${count} == 1"), rule("A", "terminate"), rule("B", "terminate")]
    calling = chat(
        tmp_path,
        counted_state({"type": "tool_call", "tool": "pay"}),
        rules,
        answers={"A": [*entries, {"text": "done"}]},
    )

    _, kept = await calling.run()

    assert changes(kept, "count") == ([1, "-"] if fired else ["-"])
    assert kept.speakers == (["A", "B"] if fired else ["A"])


async def test_a_tool_that_only_another_agent_has_is_not_called(tmp_path: Path) -> None:
    rules = [rule("A", "B"), rule("B", "terminate")]
    answers = {"B": [call("pay", amount=7), {"text": "done"}]}
    calling = chat(tmp_path, counted_state({"type": "tool_call", "tool": "pay"}), rules, answers=answers)

    _, kept = await calling.run()

    assert changes(kept, "count") == ["-", "-"]


async def test_an_automatic_tool_is_called_too(tmp_path: Path) -> None:
    calling = chat(
        tmp_path,
        counted_state({"type": "tool_call", "tool": "pay", "agent": "A"}),
        A_ENDS,
        answers={"A": [{"text": '{"amount": 7}'}]},
        agents=[{"name": "A", "auto_tool_mode": True}, {"name": "B"}],
        tools=[{**TOOLS[0], "auto_invoke": True}],
        structured_outputs={
            "models": {"M": {"type": "model", "fields": {"amount": {"type": "int"}}}},
            "registry": {"A": "M"},
        },
    )

    _, kept = await calling.run()

    assert changes(kept, "count") == [1]


async def test_a_call_that_waits_for_a_person_counts_once(tmp_path: Path) -> None:
    asking = chat(
        tmp_path,
        counted_state({"type": "tool_call", "tool": "ask"}),
        A_ENDS,
        answers={"A": [call("ask"), {"text": "done"}]},
    )

    outcome, kept = await asking.run()
    assert (outcome.kind, kept.turns) == (OutcomeKind.NEEDS_HUMAN, [])
    asking.give(asking.questions()[0], {"choice": "yes"})
    _, kept = await asking.run(kept)

    assert changes(kept, "count") == [1]


def transition_on(event: str, to: str, *, from_: str | None = None, **fields: Any) -> dict[str, Any]:
    guard = {} if from_ is None else {"from": from_}
    return {**guard, "to": to, "trigger": {"type": "lifecycle", "event": event, **fields}}


def prompts_of(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Returns the prompt of each turn, in order."""
    seen: list[str] = []
    opened = Exchange.open

    async def noting(live: Any, prompt: Any, messages: Any) -> Any:
        seen.append("\n".join(prompt))
        return await opened(live, prompt, messages)

    monkeypatch.setattr(Exchange, "open", noting)
    return seen


@pytest.mark.design("D4-44")
@pytest.mark.parametrize("event", ["on_start", "before_chat", "workflow_start", "before_agent"])
async def test_a_moment_before_a_turn_is_seen_in_its_prompt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, event: str
) -> None:
    prompts, definitions = prompts_of(monkeypatch), phase(transition_on(event, "begun"))
    variables = {"definitions": definitions, "agents": {"A": ["phase"]}}
    beginning = chat(tmp_path, definitions, A_ENDS, context_variables=variables)

    _, kept = await beginning.run()

    assert "begun" in prompts[0]
    assert changes(kept, "phase") == ["begun"]


@pytest.mark.parametrize(("event", "speaker"), [("on_start", "B"), ("before_chat", "B"), ("before_agent", "A")])
async def test_what_begins_a_chat_is_seen_by_the_first_pre_rules(tmp_path: Path, event: str, speaker: str) -> None:
    rules = [rule("A", "B", "${phase} == 'begun'", condition_scope="pre"), *A_ENDS, rule("B", "terminate")]
    beginning = chat(tmp_path, phase(transition_on(event, "begun")), rules)

    _, kept = await beginning.run()

    assert kept.speakers == [speaker]
    assert changes(kept, "phase") == ["begun"]


async def test_the_end_of_an_agents_turn_is_seen_by_its_own_rules(tmp_path: Path) -> None:
    rules = [rule("A", "B", "${phase} == 'A done'"), rule("A", "terminate"), rule("B", "A")]
    moved = phase(transition_on("after_agent", "A done", agent="A"), transition_on("after_agent", "B done", agent="B"))
    going = chat(tmp_path, moved, rules, orchestrator={**ORCHESTRATOR, "max_turns": 3})

    _, kept = await going.run()

    assert kept.speakers == ["A", "B", "A"]
    assert changes(kept, "phase") == ["A done", "B done", "A done"]


@pytest.mark.parametrize(
    ("rules", "phases"),
    [
        (A_ENDS, "completed after"),
        ([rule("A", "terminate", termination_reason="workflow_failed")], "failed after"),
    ],
)
async def test_the_moments_at_the_end_are_in_the_context_that_is_stored(
    tmp_path: Path, rules: list[Any], phases: str
) -> None:
    moved = phase(
        transition_on("after_chat", "after"),
        transition_on("on_complete", "completed after", from_="after"),
        transition_on("on_fail", "failed after", from_="after"),
    )
    ending = chat(tmp_path, moved, rules)

    await ending.run_to_its_close()

    assert ending.last is not None
    assert ending.last.storable_context()["phase"] == phases


async def test_a_moment_is_over_after_its_steps(tmp_path: Path) -> None:
    """Also after a failed step, where that does not fail the run."""
    steps = [
        {"trigger": "before_chat", "file": "steps.py", "function": "write"},
        {"trigger": "after_chat", "file": "steps.py", "function": "raising"},
    ]
    moved = phase(
        transition_on("before_chat", "seen", from_="written"), transition_on("after_chat", "closed", from_="seen")
    )
    stepping = chat(tmp_path, moved, A_ENDS, tools={"tools": TOOLS, "lifecycle_tools": steps})

    _, kept = await stepping.run_to_its_close()

    assert changes(kept, "phase") == ["seen"]
    assert stepping.last is not None
    assert stepping.last.storable_context()["phase"] == "closed"


@pytest.mark.parametrize("event", ["before_chat", "before_agent"])
async def test_what_a_step_leaves_is_plain_before_it_is_compared(tmp_path: Path, event: str) -> None:
    steps = [{"trigger": event, "file": "steps.py", "function": "break_"}]
    moved = phase(transition_on(event, "never", from_="new"), transition_on(event, "seen", from_="odd"))

    _, kept = await chat(tmp_path, moved, A_ENDS, tools={"tools": TOOLS, "lifecycle_tools": steps}).run()

    assert changes(kept, "phase") == ["seen"]


async def test_a_persons_answer_fires_no_lifecycle_event(tmp_path: Path) -> None:
    asking = chat(
        tmp_path,
        counted_state({"type": "lifecycle", "event": "after_agent"}),
        [rule("A", "user"), rule("user", "terminate")],
        orchestrator=HUMAN,
    )
    _, kept = await asking.run()
    asking.answer = "go"
    _, kept = await asking.run(kept)

    assert changes(kept, "count") == [1, "-"]


PRE_TO_B = rule("A", "B", "${go} == true", condition_scope="pre")
GO = {"go": {"type": "boolean", "source": {"type": "state", "default": True}}}
TO_B = {"tool_calls": [{"name": "transfer_to_B"}]}
JUDGED = rule("A", "B", "it is for B", condition_type="llm")
HANDED: list[tuple[str, list[Any], Any, list[str]]] = [
    ("by rules", [rule("A", "B"), rule("B", "terminate")], {}, ["A>B", "B>terminate"]),
    ("by a model", [JUDGED, rule("A", "terminate"), rule("B", "terminate")], {"A": [TO_B]}, ["A>B", "B>terminate"]),
    ("before a turn", [PRE_TO_B, rule("B", "terminate")], {}, ["B>terminate"]),
    ("to user", [rule("A", "user")], {}, ["A>user"]),
    ("to itself", [rule("A", "A", "${trail} == ''"), rule("A", "terminate")], {}, ["A>A", "A>terminate"]),
    ("to nothing", [rule("B", "A")], {}, ["-"]),
]


@pytest.mark.design("D4-44")
@pytest.mark.parametrize(("rules", "answers", "ways"), [each[1:] for each in HANDED], ids=[each[0] for each in HANDED])
async def test_a_hand_off_is_kept_with_the_turn_that_took_it(
    tmp_path: Path, rules: list[Any], answers: Any, ways: list[str]
) -> None:
    handing = chat(tmp_path, {**trail("A", "B"), **GO}, rules, answers=answers)

    _, kept = await handing.run()

    assert changes(kept, "trail") == ways


PATTERNS = [
    ("RoundRobinPattern", {}, ["A>B", "B>A", "A>B"]),
    ("Pipeline", {}, ["A>B", "-"]),
    ("AutoPattern", {"group_manager": [{"text": "B"}, {"text": "terminate"}]}, ["A>B", "B>terminate"]),
]


@pytest.mark.parametrize(("pattern", "answers", "ways"), PATTERNS, ids=[each[0] for each in PATTERNS])
async def test_a_pattern_hands_over_too(tmp_path: Path, pattern: str, answers: Any, ways: list[str]) -> None:
    orchestrator = {**ORCHESTRATOR, "orchestration_pattern": pattern, "max_turns": 3}
    handing = chat(tmp_path, trail("A", "B"), [], answers=answers, orchestrator=orchestrator)

    _, kept = await handing.run()

    assert changes(kept, "trail") == ways


async def test_the_rules_of_user_hand_over_at_the_start(tmp_path: Path) -> None:
    starting = chat(
        tmp_path,
        counted_state({"type": "handoff", "from": "user", "to": "A"}),
        [rule("user", "A"), rule("A", "B", "${count} == 1", condition_scope="pre"), rule("B", "terminate")],
        orchestrator={**ORCHESTRATOR, "initial_agent": "user"},
    )

    _, kept = await starting.run()

    assert (kept.speakers, changes(kept, "count")) == (["B"], [1])


async def test_a_hand_off_is_seen_by_the_next_pre_rules_only(tmp_path: Path) -> None:
    rules = [
        rule("A", "terminate", "${count} == 1"),
        rule("A", "B"),
        rule("B", "C", "${count} == 1", condition_scope="pre"),
        rule("C", "terminate"),
    ]
    handing = chat(
        tmp_path,
        counted_state({"type": "handoff", "from": "A", "to": "B"}),
        rules,
        agents=[{"name": name} for name in "ABC"],
    )

    _, kept = await handing.run()
    _, resumed = await handing.run(kept.copy_up_to(1))

    assert kept.speakers == resumed.speakers == ["A", "C"]
    assert changes(kept, "count") == changes(resumed, "count") == [1, "-"]


async def test_a_hand_off_before_a_turn_belongs_to_the_turn_that_follows(tmp_path: Path) -> None:
    rules = [
        rule("A", "B"),
        rule("B", "C", "${go} == true", condition_scope="pre"),
        rule("C", "A", "${count} == 7", condition_scope="pre"),
        rule("C", "terminate"),
    ]
    handing = chat(
        tmp_path,
        {**counted_state({"type": "handoff", "from": "B", "to": "C"}), **GO},
        rules,
        agents=[{"name": name} for name in "ABC"],
    )

    _, kept = await handing.run()
    _, resumed = await handing.run(kept.copy_up_to(1))

    assert kept.speakers == resumed.speakers == ["A", "C"]
    assert changes(kept, "count") == changes(resumed, "count") == ["-", 1]


async def test_a_chat_that_ends_before_a_turn_keeps_the_hand_off(tmp_path: Path) -> None:
    rules = [rule("A", "B"), rule("B", "terminate", "${go} == true", condition_scope="pre")]
    handing = chat(tmp_path, {**counted_state({"type": "handoff", "to": "terminate"}), **GO}, rules)

    for kept in (ChatRecorder(), (await handing.run())[1].copy_up_to(1)):
        await handing.run(kept)
        assert handing.last is not None
        assert handing.last.storable_context()["count"] == 1
        assert handing.last.committed_snapshot is not None  # so that the resulting value is written back
        assert changes(kept, "count") == ["-"]


@pytest.mark.parametrize(("turns", "first"), [(0, "A"), (1, "A"), (0, "user")])
async def test_a_hand_off_to_a_person_before_a_turn_is_taken_once(tmp_path: Path, turns: int, first: str) -> None:
    """The context stays that of the last turn while the chat rests.

    The hand-off is taken again with the answer."""
    before = [rule("A", "B")] if turns else [rule("A", "B", "${go} == true", condition_scope="pre")]
    asks = rule("B", "user", "${go} == true", condition_scope="pre")
    asking = chat(
        tmp_path,
        {**counted_state({"type": "handoff", "from": "B", "to": "user"}), **GO},
        [*before, asks, rule("B", "terminate"), *([rule("user", "A")] if first == "user" else [])],
        orchestrator={**HUMAN, "initial_agent": first},
    )

    outcome, kept = await asking.run()
    assert (outcome.kind, len(kept.turns)) == (OutcomeKind.NEEDS_HUMAN, turns)
    assert asking.last is not None
    assert asking.last.is_resting
    asking.answer = "go"
    _, kept = await asking.run(kept)

    assert changes(kept, "count")[: turns + 1] == ["-"] * turns + [1]
    assert kept.context(turns + 1)["count"] == 1
    assert not asking.last.is_resting


async def test_the_answer_of_a_person_is_a_turn_that_hands_over(tmp_path: Path) -> None:
    asking = chat(tmp_path, trail("A", "B"), [rule("A", "user"), rule("user", "B")], orchestrator=HUMAN)
    _, kept = await asking.run()
    asking.answer = "go"
    _, kept = await asking.run(kept)

    assert kept.speakers == ["A", "user", "B"]
    assert changes(kept, "trail") == ["A>user", "user>B", "-"]


@pytest.mark.parametrize("first", ["B", "user"])
async def test_an_open_turn_goes_on_after_the_hand_offs_that_led_to_it(tmp_path: Path, first: str) -> None:
    """The rules may not hold any more; the speaker was decided when the turn began."""
    source = "user" if first == "user" else "B"
    asking = chat(
        tmp_path,
        {**counted_state({"type": "handoff", "from": source, "to": "A"}), **GO},
        [rule(source, "A", "${go} == true", condition_scope="pre"), *A_ENDS],
        answers={"A": [call("ask"), {"text": "done"}]},
        orchestrator={**ORCHESTRATOR, "initial_agent": first},
    )

    outcome, kept = await asking.run()
    assert (outcome.kind, kept.turns) == (OutcomeKind.NEEDS_HUMAN, [])
    asking.give(asking.questions()[0], {"choice": "yes"})
    if first != "user":
        asking.context = {**asking.context, "go": False}
    _, kept = await asking.run(kept)

    assert (kept.speakers, changes(kept, "count")) == (["A"], [1])


async def test_a_hand_off_before_an_earlier_turn_is_none_of_the_open_one(tmp_path: Path) -> None:
    asking = chat(
        tmp_path,
        {**counted_state({"type": "handoff", "from": "B", "to": "C"}), **GO},
        [rule("B", "C", "${go} == true", condition_scope="pre"), rule("C", "A"), *A_ENDS],
        answers={"A": [call("ask"), {"text": "done"}]},
        agents=[{"name": name} for name in "ABC"],
        orchestrator={**ORCHESTRATOR, "initial_agent": "B"},
    )

    _, kept = await asking.run()
    asking.give(asking.questions()[0], {"choice": "yes"})
    _, kept = await asking.run(kept)

    assert (kept.speakers, changes(kept, "count")) == (["C", "A"], [1, "-"])


async def test_a_run_handed_back_before_a_turn_takes_the_hand_off_again(tmp_path: Path) -> None:
    """The worker is lost after the rules were followed.

    The model's fault is transient, and nothing is committed."""
    busy = {"error": {"status": 503}}
    handing = chat(
        tmp_path,
        {**counted_state({"type": "handoff", "from": "A", "to": "B"}), **GO},
        [PRE_TO_B, rule("B", "terminate")],
        answers={"B": [busy, {"text": "done"}]},
    )

    outcome, kept = await handing.run()
    assert outcome.transient
    _, kept = await handing.run(kept, failed={"B": 1})

    assert (kept.speakers, changes(kept, "count")) == (["B"], [1])


async def test_a_chat_closed_again_ends_in_the_same_state(tmp_path: Path) -> None:
    closing = chat(tmp_path, counted_state({"type": "lifecycle", "event": "after_chat"}), A_ENDS)
    _, kept = await closing.run()

    for _ in range(2):  # its worker is lost while it closes
        conversation = closing.conversation(kept)
        outcome = await closing.take_turns(conversation, kept)
        await close_conversation(conversation, outcome)
        assert (outcome.kind, conversation.storable_context()["count"]) == (OutcomeKind.COMPLETED, 1)


async def test_computed_variables_follow_an_event(tmp_path: Path) -> None:
    doubled = {"type": "integer", "source": {"type": "computed", "computation": "count"}}
    handing = chat(
        tmp_path,
        {**counted_state({"type": "handoff", "to": "B"}), "copy": doubled},
        [rule("A", "B"), rule("B", "terminate", "${copy} == 1"), rule("B", "A")],
    )

    outcome, kept = await handing.run()

    assert (outcome, kept.speakers) == (Outcome(OutcomeKind.COMPLETED, "B ends the chat"), ["A", "B"])
    assert changes(kept, "copy") == [1, "-"]
