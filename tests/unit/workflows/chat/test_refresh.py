"""Refresh: variables read again before each turn of an agent that sees them."""

import json
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule, write_tool
from workflows.chat.chat_state import Conversation
from workflows.context.external.external_reader import refuse_external_read
from workflows.context.reads.source_reads import ContextReaders, refreshed_variables, reread_values
from workflows.context.redaction import HIDDEN, Redactor
from workflows.outcome import OutcomeKind
from workflows.package.normal_form.package_model import Package, Variable

STOCK = {
    "type": "data_reference",
    "database_name": "shop",
    "collection": "stock",
    "query_template": {"app_id": "{{app_id}}"},
    "fields": ["left"],
    "refresh_strategy": "per_turn",
}
LOW = {"type": "computed", "computation": "stock < `5`", "inputs": ["stock"]}
VARIABLES: dict[str, Any] = {
    "definitions": {
        "stock": {"type": "integer", "source": STOCK},
        "once": {"type": "integer", "source": {**STOCK, "refresh_strategy": "once"}},
        "low": {"type": "boolean", "source": LOW},
    },
    "agents": {"A": ["stock", "once"], "B": ["once"], "C": ["low"]},
}
AGENTS = {"agents": [{"name": name, "system_message": f"You are {name}."} for name in "ABC"]}
ASK = """
from workflows.tools import use_ui_tool

async def ask(context_variables):
    await use_ui_tool("Approve", {}, choices=["yes", "no"])
    return f"asked at {context_variables['stock']}"
"""


class RefreshingChat(Chat):
    """A chat whose database has a new value for each read."""

    values: list[Any]
    reads: list[list[str]]

    def conversation(self, recorder: ChatRecorder, **options: Any) -> Conversation:
        made = super().conversation(recorder, **options)
        made.refresh_variables = self._read
        return made

    async def _read(self, variables: Collection[Variable]) -> Mapping[str, Any]:
        self.reads.append([each.name for each in variables])
        return {} if (value := self.values.pop(0)) is None else {"stock": value}


def shop(folder: Path, values: list[Any], answers: Any = None, **files: Any) -> RefreshingChat:
    rules = {"handoff_rules": [rule("A", "B"), rule("B", "C"), rule("C", "terminate")]}
    package = load(folder, **{"agents": AGENTS, "context_variables": VARIABLES, "handoffs": rules, **files})
    assert not package.is_refused, package.findings
    context = {"stock": 9, "once": 9, "low": False, "run_id": "run_1"}
    chat = RefreshingChat(
        build_chat(package, answers or {"default": {"text": "ok"}}, folder), context, fixed={"run_id": "run_1"}
    )
    chat.values, chat.reads = values, []
    return chat


@pytest.mark.design("D4-40")
async def test_it_is_read_before_each_turn_of_an_agent_that_sees_it(tmp_path: Path) -> None:
    chat = shop(tmp_path, [7, 3])

    _, kept = await chat.run()

    assert chat.reads == [["stock"], ["stock"]]  # of A, and of C, which sees a value computed from it
    assert [(kept.context(n)["stock"], kept.context(n)["low"]) for n in (1, 2, 3)] == [
        (7, False),
        (7, False),
        (3, True),
    ]
    assert [turn.context_changes for turn in kept.turns] == [{"stock": 7}, {}, {"stock": 3, "low": True}]


async def test_what_cannot_be_read_keeps_its_last_value(tmp_path: Path) -> None:
    _, kept = await shop(tmp_path, [7, None]).run()
    assert [kept.context(number)["stock"] for number in (1, 3)] == [7, 7]


async def test_a_turn_that_goes_on_has_what_it_has_read(tmp_path: Path) -> None:
    write_tool(tmp_path, "ask.py", ASK)
    tools = [{"agent": "A", "file": "ask.py", "function": "ask"}]
    answers = {"answers": {"A": [{"tool_calls": [{"name": "ask"}]}]}, "default": {"text": "ok"}}
    chat = shop(tmp_path, [7, 3], answers, tools=tools)

    outcome, kept = await chat.run()
    assert outcome.kind is OutcomeKind.NEEDS_HUMAN
    assert json.loads(kept.open_turn or "")["refreshed"] == {"stock": 7}
    chat.give(chat.questions()[0], {"choice": "yes"})
    _, kept = await chat.run(kept)

    told = [each["text"] for line in kept.turn(1).events for each in line.get("tool_results", ())]
    assert told == ["asked at 7"]
    assert len(chat.reads) == 2
    assert kept.turn(1).context_changes == {"stock": 7}


async def test_a_hidden_value_that_is_read_again_stays_hidden(tmp_path: Path) -> None:
    write_tool(tmp_path, "ask.py", ASK)
    tools = [{"agent": "A", "file": "ask.py", "function": "ask"}]
    answers = {"answers": {"A": [{"tool_calls": [{"name": "ask"}]}]}, "default": {"text": "ok"}}
    texts = {**VARIABLES, "definitions": {**VARIABLES["definitions"], "stock": {"type": "string", "source": STOCK}}}
    chat = shop(tmp_path, ["canary-7"], answers, tools=tools, context_variables=texts)
    chat.redactor = Redactor(["canary-7"])

    _, kept = await chat.run()

    assert chat.last is not None
    assert chat.last.context["stock"] == HIDDEN
    assert json.loads(kept.open_turn or "")["refreshed"] == {"stock": HIDDEN}


async def test_what_is_computed_from_it_is_in_the_prompt_of_the_turn(tmp_path: Path) -> None:
    prompted = [*AGENTS["agents"][:2], {"name": "C", "system_message": "low: {low}"}]
    chat = shop(tmp_path, [7, 3], agents={"agents": prompted})
    shown: list[str] = []
    client = chat.built.agents["C"].config.create()._metered  # type: ignore[union-attr]  # -- the metered client's inside
    inner = client._inner

    async def listening(messages: Any, context: Any, **request: Any) -> Any:
        shown.append(context.prompt[0])
        return await inner(messages, context, **request)

    client._inner = listening
    await chat.run()

    assert shown[-1] == "low: true"


async def test_a_document_that_is_gone_is_the_default_and_a_failure_is_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    package = load(tmp_path, agents=AGENTS, context_variables=VARIABLES)
    found: Any = {"left": 4}

    async def document(_: Any) -> Any:
        if isinstance(found, Exception):
            raise found
        return found

    readers = ContextReaders("acme", {"app_id": "acme"}, document, refuse_external_read)
    variables = refreshed_variables(package)["A"]

    assert await reread_values(readers, variables, run_id="run_1") == {"stock": 4}
    found = None
    assert await reread_values(readers, variables, run_id="run_1") == {"stock": None}
    found = TimeoutError()
    assert await reread_values(readers, variables, run_id="run_1") == {}
    assert [each.getMessage() for each in caplog.records] == ["context_value_not_refreshed"]


def test_a_package_without_such_variables_reads_nothing(tmp_path: Path) -> None:
    package: Package = load(tmp_path, orchestrator=ORCHESTRATOR)
    assert refreshed_variables(package) == {}
