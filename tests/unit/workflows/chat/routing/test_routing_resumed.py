"""A chat that is resumed from any of its checkpoints ends like one never stopped."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any, get_args

from hypothesis import given
from hypothesis import strategies as st

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.normal_form import agents, package
from workflows.context.observers.agent_text import AgentTextTrigger
from workflows.context.observers.handoff import HandoffTrigger
from workflows.context.observers.lifecycle import LifecycleTrigger
from workflows.context.observers.tool_call import ToolCallTrigger
from workflows.context.state.state_transitions import StateTrigger, Transition
from workflows.package.normal_form.package_model import Limits, Pattern, Rule, Variable
from workflows.package.normal_form.variable_sources import StateSource

NAMES = "ABC"
TARGETS = (*NAMES, "terminate", "user")
TOGGLED = Variable(
    "v", "boolean", StateSource(tuple(Transition(AgentTextTrigger(name, equals="on")) for name in NAMES)), False
)
HANDED = Variable(
    "h", "boolean", StateSource((Transition(HandoffTrigger("B")), Transition(HandoffTrigger("C"), to=False))), False
)
# Grows with each event, so a lost or repeated one shows.
EVENTS: tuple[StateTrigger, ...] = (
    *(HandoffTrigger(name) for name in TARGETS),
    LifecycleTrigger("before_chat"),
    LifecycleTrigger("before_agent"),
    ToolCallTrigger("t"),
)
COUNTED = Variable(
    "n",
    "integer",
    StateSource(tuple(Transition(event, from_=number, to=number + 1) for event in EVENTS for number in range(40))),
    0,
)

ends = {"source": st.sampled_from(NAMES), "target": st.sampled_from(TARGETS)}
conditions = st.sampled_from(["${v}", "not ${v}", "${h}", "not ${h}"])
rules = (
    st.builds(Rule, **ends)
    | st.builds(Rule, **ends, judgement=st.just("it is ready"))
    | st.builds(Rule, **ends, condition=conditions)
    | st.builds(Rule, **ends, condition=conditions, scope=st.just("pre"))
)
entries = st.sampled_from(
    [
        {"text": "on"},
        {"text": "B"},
        *({"tool_calls": [{"name": f"transfer_to_{target}"}]} for target in TARGETS),
        {"text": "both", "tool_calls": [{"name": "transfer_to_A"}, {"name": "transfer_to_C"}]},
    ]
)
answers = st.fixed_dictionaries({name: st.lists(entries, max_size=4) for name in NAMES})
choices = st.lists(st.sampled_from([*NAMES, "terminate", "nobody"]), max_size=4)


@given(st.sampled_from(get_args(Pattern)), st.lists(rules, max_size=7), answers, choices, st.booleans())
def test_a_chat_goes_on_as_if_it_had_not_stopped(
    pattern: Pattern, table: list[Rule], said: dict[str, list[Any]], chosen: list[str], human: bool
) -> None:
    routed = package(
        agents=agents(*NAMES),
        rules=tuple(table),
        variables={"v": TOGGLED, "h": HANDED, "n": COUNTED},
        orchestrator={"pattern": pattern, "human_in_the_loop": human, "limits": Limits(max_turns=5)},
    )
    script = {"answers": {**said, "group_manager": [{"text": name} for name in chosen]}, "default": {"text": "B"}}
    with tempfile.TemporaryDirectory() as folder:
        playing = Chat(
            build_chat(routed, script, Path(folder) / "p"),
            {"app_id": "a", "chat_id": "c", "v": False, "h": False, "n": 0},
        )
        asyncio.run(compare(playing))


async def compare(playing: Chat) -> None:
    outcome, kept = await playing.run_to_its_close()
    whole, end = turns_of(kept), last_context(playing)

    for number in range(len(whole) + 1):
        again, resumed = await playing.run_to_its_close(kept.copy_up_to(number))

        assert again == outcome
        assert turns_of(resumed) == whole
        assert last_context(playing) == end


def turns_of(recorder: ChatRecorder) -> list[Any]:
    return [(turn.agent, turn.text, turn.handoff, turn.context_changes) for turn in recorder.turns]


def last_context(playing: Chat) -> Any:
    assert playing.last is not None
    return playing.last.storable_context()
