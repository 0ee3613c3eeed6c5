"""Packages of the first YAML format: tools by agent, with imports of their platform."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, build_chat
from tests.unit.workflows.packages import WAYS, rule, write_package, write_tool
from workflows.outcome import OutcomeKind
from workflows.package.loader import Inspection, inspect_package

ORDERS = """
from logs.logging_config import get_workflow_logger
from workflows.Early.tools.shared_names import GREETING
logger = get_workflow_logger(workflow_name="Early")
async def look_up(order: str, context_variables=None):
    logger.info("looks up", order=order)
    context_variables.set("order", order)
    return f"{GREETING} {order}"
"""
CARD = """
from core.workflow.ui_tools import use_ui_tool
async def approve(amount: int):
    return await use_ui_tool("ApprovalCard", {"amount": amount}, chat_id="c", workflow_name="Early")
"""
TOOLS: dict[str, Any] = {
    "backend_tools": {
        "Clerk": [{"path": "workflows.Early.tools.orders.look_up", "description": "Looks up an order"}],
        "ALL_AGENTS": [{"path": "factory_app.workflows.Early.common.note", "description": "Notes", "tool_id": "note"}],
    },
    "ui_tools": {
        "Payer": [
            {
                "path": "workflows.Early.tools.card.approve",
                "description": "Asks",
                "tool_id": "approve",
                "display": "inline",
            }
        ]
    },
    "lifecycle_tools": {
        "ALL_AGENTS": [{"path": "workflows.Early.tools.moments.begin", "trigger": "before_chat"}],
        "Payer": [{"path": "workflows.Early.tools.moments.turn", "trigger": "before_agent", "tool_id": "turn"}],
    },
}


@pytest.fixture
def early(tmp_path: Path) -> Inspection:
    folder = tmp_path / "Early"
    write_tool(folder, "orders.py", ORDERS)
    write_tool(folder, "card.py", CARD)
    write_tool(folder, "shared_names.py", "GREETING = 'order'\n")
    write_tool(
        folder, "moments.py", "def begin(context_variables): context_variables.set('begun', True)\ndef turn(): ...\n"
    )
    (folder / "common.py").write_text("def note(text: str): return text\n", encoding="utf-8")
    write_package(
        folder,
        orchestrator={"workflow_name": "Early", "recipient": "Clerk"},
        agents={"agents": {"Clerk": {"system_message": "You look."}, "Payer": {"system_message": "You pay."}}},
        handoffs={"handoff_rules": [rule("Clerk", "Payer"), rule("Payer", "terminate")]},
        tools=TOOLS,
    )
    return inspect_package(folder)


def test_each_entry_is_counted_and_given_to_its_agents(early: Inspection) -> None:
    assert early.package is not None
    assert early.obstacles == ()
    assert {finding.code for finding in early.findings} - WAYS == {"ui_tool_headless"}
    assert (early.counts.agents, early.counts.tools, early.counts.lifecycle_tools) == (2, 3, 2)
    assert [(tool.agents, tool.function, tool.kind) for tool in early.package.tools] == [
        (("Clerk",), "look_up", "Agent_Tool"),
        (("Clerk", "Payer"), "note", "Agent_Tool"),
        (("Payer",), "approve", "UI_Tool"),
    ]
    assert [(tool.moment, tool.agent) for tool in early.package.lifecycle_tools] == [
        ("before_chat", None),
        ("before_agent", "Payer"),
    ]


async def test_its_tools_are_called(early: Inspection) -> None:
    assert early.package is not None
    answers = {
        "Clerk": [{"tool_calls": [{"name": "look_up", "arguments": {"order": "17"}}]}, {"text": "found"}],
        "Payer": [
            {"tool_calls": [{"name": name, "arguments": given}]}
            for name, given in (("note", {"text": "x"}), ("approve", {"amount": 3}))
        ]
        + [{"text": "paid"}],
    }
    chat = Chat(
        build_chat(early.package, {"answers": answers}, early.folder), ui_responses={"ApprovalCard": {"ok": True}}
    )

    outcome, recorder = await chat.run()

    texts = [
        result["text"] for turn in recorder.turns for event in turn.events for result in event.get("tool_results", ())
    ]
    assert outcome.kind is OutcomeKind.COMPLETED
    assert [texts[0], texts[1], json.loads(texts[2])] == ["order 17", "x", {"ok": True}]
    assert recorder.context(1)["order"] == "17"
