"""Any chat that goes on from any of its checkpoints ends as the one that was never stopped, whatever routes it."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.unit.workflows.chats import Chat, built
from tests.unit.workflows.normal_form import agents, package
from workflows.context.observers.agent_text import AgentText
from workflows.context.observing import Transition
from workflows.package.models import Limits, Pattern, Rule, Variable
from workflows.package.sources import StateSource

NAMES = "ABC"
TARGETS = (*NAMES, "terminate", "user")
TOGGLED = Variable(
    "v", "boolean", StateSource(tuple(Transition(AgentText(name, equals="on")) for name in NAMES)), False
)

ends = {"source": st.sampled_from(NAMES), "target": st.sampled_from(TARGETS)}
conditions = st.sampled_from(["${v}", "not ${v}"])
rules = (
    st.builds(Rule, **ends)
    | st.builds(Rule, **ends, judged=st.just("it is ready"))
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


@settings(max_examples=25, deadline=None)
@given(st.sampled_from(get_args(Pattern)), st.lists(rules, max_size=7), answers, choices, st.booleans())
def test_a_chat_goes_on_as_if_it_had_not_stopped(
    pattern: Pattern, table: list[Rule], said: dict[str, list[Any]], chosen: list[str], human: bool
) -> None:
    routed = package(
        agents=agents(*NAMES),
        rules=tuple(table),
        variables={"v": TOGGLED},
        orchestrator={"pattern": pattern, "human_in_the_loop": human, "limits": Limits(max_turns=5)},
    )
    script = {"answers": {**said, "group_manager": [{"text": name} for name in chosen]}, "default": {"text": "B"}}
    with tempfile.TemporaryDirectory() as folder:
        playing = Chat(built(routed, script, Path(folder) / "p"), {"app_id": "a", "chat_id": "c", "v": False})
        asyncio.run(compare(playing))


async def compare(playing: Chat) -> None:
    outcome, kept = await playing.run()
    whole = [(turn.agent, turn.text, turn.handoff) for turn in kept.turns]

    for number in range(1, len(whole) + 1):
        again, resumed = await playing.run(kept.up_to(number))

        assert again == outcome
        assert [(turn.agent, turn.text, turn.handoff) for turn in resumed.turns] == whole
