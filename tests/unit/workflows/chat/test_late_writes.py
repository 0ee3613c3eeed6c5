"""Late writes: code that a tool left running changes the context at a bad moment.

Here a value writes to the context when it is read: what a tool's own thread does, at a defined moment.
"""

from pathlib import Path

from tests.unit.workflows.chats import ChatRecorder, build_chat, never
from tests.unit.workflows.packages import load, rule, write_tool
from workflows.chat.chat_loop import run_conversation
from workflows.chat.chat_state import Conversation
from workflows.chat.history.checkpoint import Checkpoint
from workflows.chat.history.transcript import Turn
from workflows.chat.model_call.metered_client import RunMeter
from workflows.context.context_variables import ContextVariables
from workflows.context.redaction import HIDDEN, Redactor

CANARY = "canary-7f3a"
MEDDLE = """
class Meddler:
    def __init__(self, context_variables):
        self.context, self.written = context_variables, 0

    def __repr__(self):
        self.written += 1
        self.context.set(f"late_{self.written}", "canary-7f3a")
        return "a meddler"

def leave_behind(context_variables):
    context_variables.set("meddler", Meddler(context_variables))
    context_variables.set("note", {"said": []})
"""


class LateWriter:
    """Writes to the live context while a turn is being committed."""

    def __init__(self, context: ContextVariables) -> None:
        self.context = context
        self.committed: list[str] = []

    async def commit(self, number: int, turn: Turn, checkpoint: Checkpoint) -> None:
        self.context["note"]["said"].append(CANARY)
        self.context.set(f"after_{number}", CANARY)
        self.committed.append(f"{turn.context_changes} {checkpoint.context}")


def test_names_may_come_and_go_while_they_are_looked_at() -> None:
    context = ContextVariables({"a": 1, "b": 2})

    for name, value in context.items():
        context.set(f"{name}{name}", value)
        context.remove("b")
    for name in context:
        context.remove(name)

    assert dict(context) == {}


async def test_values_left_behind_neither_end_the_run_nor_are_stored_in_clear(tmp_path: Path) -> None:
    write_tool(tmp_path, "late.py", MEDDLE)
    tools = {"tools": [{"agent": "A", "file": "late.py", "function": "leave_behind"}]}
    rules = {"handoff_rules": [rule("A", "B"), rule("B", "terminate")]}
    package = load(tmp_path, tools=tools, handoffs=rules)
    answers = {"answers": {"A": [{"tool_calls": [{"name": "leave_behind"}]}]}, "default": {"text": "ok"}}
    context, meter = ContextVariables(), RunMeter(ChatRecorder().record)
    chat = Conversation(
        build_chat(package, answers, tmp_path), context, frozenset(), meter, "Begin.", redactor=Redactor([CANARY])
    )
    late = LateWriter(context)

    outcome = await run_conversation(chat, save_turn=late.commit, should_stop=never)

    assert outcome.kind == "completed"
    assert len(late.committed) == 2
    assert HIDDEN in late.committed[1]
    assert CANARY in str(context.data)
    assert CANARY not in str([late.committed, chat.turns, chat.storable_context()])
