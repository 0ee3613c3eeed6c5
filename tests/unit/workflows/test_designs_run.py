"""Packages in the literal JSON of designs 1, 2 and 4 run as described.

That holds in development and in production.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.contexts import BASE, FACTS, FakeDocuments
from tests.unit.workflows.packages import errors
from workflows.context.context_loader import ContextSources, load_context
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.loader import inspect_package

PACKAGES = Path(__file__).parents[2] / "designs" / "packages"
ENVIRONMENT = {"MONETIZATION_ENABLED": "true", "SUPPORT_MAIL": "help@acme"}
BOTH = pytest.mark.parametrize("production", [False, True], ids=["development", "production"])


@dataclass
class PlayedRun:
    outcome: Outcome
    recorder: ChatRecorder
    chat: Chat
    prompts: dict[str, list[str]] = field(default_factory=dict)  # by agent
    offered: dict[str, set[str]] = field(default_factory=dict)

    @property
    def left(self) -> Mapping[str, Any]:
        """Returns the context after the last steps."""
        assert self.chat.last is not None
        return self.chat.last.context


async def play_design(
    name: str, workspace: Path, answers: Mapping[str, Any], *, production: bool, states: Mapping[str, Any] | None = None
) -> PlayedRun:
    inspection = inspect_package(PACKAGES / name, production=production)
    assert inspection.package is not None
    assert inspection.obstacles == ()
    assert errors(inspection.package) == []
    shop = FakeDocuments({"ConceptOverview": "bicycles", "plan": "gold"} if name == "Concept" else {"plan": "gold"})

    async def kept_states(_: Any) -> Mapping[str, Any]:
        return states or {}

    environment = {} if production else ENVIRONMENT
    sources = ContextSources(environment, production, True, shop.read, read_states=kept_states)
    loaded = await load_context(inspection.package, FACTS, {}, sources)
    chat = Chat(
        build_chat(inspection.package, {"answers": answers, "default": {"text": "ok"}}, workspace / name),
        dict(loaded.variables),
        loaded.suppressed,
        fixed=BASE,
        ui_responses={"action_plan": {"plan_acceptance": "accepted"}, "approve_refund": {"decision": "approved"}},
    )
    played = PlayedRun(Outcome(OutcomeKind.CANCELLED, ""), ChatRecorder(), chat)
    for agent in chat.built.agents.values():
        client = agent.config.create()._metered  # type: ignore[union-attr]  # -- the metered client's inside
        if not isinstance(client._inner, ListeningClient):
            client._inner = ListeningClient(client._inner, played)
    played.outcome, played.recorder = await chat.run_to_its_close()
    return played


class ListeningClient:
    def __init__(self, inner: Any, played: PlayedRun) -> None:
        self._inner, self._played = inner, played

    async def __call__(self, messages: Any, context: Any, **request: Any) -> Any:
        assert self._played.chat.last is not None
        speaking = self._played.chat.last.current_turn
        assert speaking is not None
        self._played.prompts.setdefault(speaking.agent, []).append("\n".join(context.prompt))
        names = {each.function.name for each in request["tools"]}
        self._played.offered.setdefault(speaking.agent, set()).update(names)
        return await self._inner(messages, context, **request)


INTERVIEW = [{"text": "What do you sell?"}, {"text": " next "}]
PLAN = [{"tool_calls": [{"name": "action_plan", "arguments": {"plan": "sell"}}]}, {"text": "accepted"}]


@pytest.mark.design("D1-11", "D1-17", "D1-35", "D1-39", "D1-40", "D1-42", "D1-44", "D1-64", "D1-65", "D1-66")
@BOTH
async def test_design_1_runs_as_written(production: bool, tmp_path: Path) -> None:
    answers = {"InterviewAgent": INTERVIEW[1:], "ActionPlanArchitect": PLAN}
    played = await play_design("Concept", tmp_path, answers, production=production)

    pricing = [] if production else ["PricingAgent"]
    speakers = ["InterviewAgent", *pricing, "ActionPlanArchitect", "ProjectOverviewAgent"]
    assert (played.outcome.kind, played.recorder.speakers) == (OutcomeKind.COMPLETED, speakers)
    [first, *_] = played.prompts["InterviewAgent"]
    aware, flags = ("", "") if production else ("true", "context_aware: true\n")
    assert first == (
        f"Assisting enterprise acme (context aware: {aware}). Say NEXT when you know enough.\n"
        f"[CONTEXT VARIABLES]\nenterprise_id: acme\n{flags}concept_overview: bicycles"
        + ("" if production else "\nmonetization_enabled: true")
    )
    # Its rule names a variable that production hides.
    assert ("transfer_to_terminate" in played.offered["InterviewAgent"]) is not production
    assert played.left["action_plan_acceptance"] == "accepted"
    assert (played.left["product_tier"], played.left["max_items"]) == ("beta", 25)
    assert {"context_aware", "monetization_enabled"} & played.left.keys() == (
        set() if production else {"context_aware", "monetization_enabled"}
    )


@pytest.mark.design("D2-2", "D2-5", "D2-8", "D2-11", "D1-39")
@BOTH
async def test_design_2_runs_as_written(production: bool, tmp_path: Path) -> None:
    answers = {"InterviewAgent": [{"text": "Who are you?"}, {"text": "TERMINATE"}]}
    played = await play_design("Onboarding", tmp_path, answers, production=production)

    assert played.outcome.kind is OutcomeKind.COMPLETED
    assert played.recorder.speakers == ["InterviewAgent", "InterviewAgent", "WelcomeAgent"]
    assert [turn.context_changes for turn in played.recorder.turns] == [{}, {"interview_complete": True}, {}]


ANALYSIS = '{"domain": "finance", "urgency": 2, "topics": ["refund"], "is_known": true}'
REFUND = [{"tool_calls": [{"name": "approve_refund", "arguments": {"amount": 60}}]}, {"text": "Refunded."}]


@pytest.mark.design("D4-37", "D4-44", "D4-45", "D4-51", "D4-52", "D4-64", "D4-66", "D4-67", "D4-71", "D4-73")
@BOTH
@pytest.mark.parametrize("states", [{}, {"refund_approval": "approved"}], ids=["first run", "next run"])
async def test_design_4_runs_as_written(states: dict[str, Any], production: bool, tmp_path: Path) -> None:
    answers = {"RouterAgent": [{"text": ANALYSIS}], "FinanceSpecialist": REFUND}
    played = await play_design("SupportRouter", tmp_path, answers, production=production, states=states)

    finance = [] if states else ["FinanceSpecialist"]  # its rule of scope pre holds when its turn comes
    assert (played.outcome.kind, played.recorder.speakers) == (
        OutcomeKind.COMPLETED,
        ["RouterAgent", *finance, "ClosingAgent"],
    )
    assert played.prompts["RouterAgent"][0] == (
        "[ROLE]\nYou route the request of a customer on plan gold.\n\n[OBJECTIVE]\nFind the domain.\n\n"
        "[CONTEXT]\nSupport of a shop.\n\n[INSTRUCTIONS]\nName one domain.\n"
        "[CONTEXT VARIABLES]\ncurrent_domain: unknown\ncustomer_plan: gold\nchat_stage: open"
    )
    assert played.offered["RouterAgent"] == {"transfer_to_TechSpecialist"}
    first = played.recorder.turn(1)
    assert {name: first.context_changes[name] for name in ("request_analyzed", "with_finance", "current_domain")} == {
        "request_analyzed": True,
        "with_finance": True,
        "current_domain": "finance",
    }
    assert played.left["trail"] == ["open_ticket", "before_chat", "after_chat"]
    assert (played.left["chat_stage"], played.left["router_turns"]) == ("closed", 1)
    assert (played.left["refund_approval"], played.left["is_large"]) == ("approved", None if states else True)
    assert played.left.get("support_mail") == (None if production else "help@acme")
    if finance:
        shown = played.prompts["FinanceSpecialist"][0]
        assert "with_finance: true" in shown
        assert ("support_mail: help@acme" in shown) is not production
