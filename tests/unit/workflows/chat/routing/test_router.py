"""The router: which rule hands over, and what an end means."""

from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, build_chat
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule
from workflows.chat.routing import router
from workflows.chat.routing.router import Router, end_outcome
from workflows.context.expressions.routing_conditions import Condition, compile_condition
from workflows.outcome import OutcomeKind
from workflows.package.normal_form.package_model import Package, Rule


def package_of(folder: Path, *rules: Any, pattern: str = "DefaultPattern", human: bool = False) -> Package:
    orchestrator = {**ORCHESTRATOR, "orchestration_pattern": pattern, "human_in_the_loop": human}
    agents = [{"name": name} for name in "ABC"]
    package = load(folder, orchestrator=orchestrator, agents=agents, handoffs={"handoff_rules": list(rules)})
    assert not package.is_refused, package.findings
    return package


def target(decision: Rule | None) -> str | None:
    return None if decision is None else decision.target


def route_after(package: Package, values: dict[str, Any], *, suppressed: frozenset[str] = frozenset()) -> str | None:
    return target(Router(package, suppressed).rule_after("A", values))


@pytest.mark.design("D1-65", "D4-53")
def test_conditions_apply_in_file_order_and_the_last_bare_rule_is_fallback(tmp_path: Path) -> None:
    package = package_of(
        tmp_path,
        rule("A", "A"),
        rule("A", "B", "${x} > 0"),
        rule("A", "C", "${x} > 1"),
        rule("A", "terminate"),
        rule("B", "C"),
    )

    assert route_after(package, {"x": 2}) == "B"
    assert route_after(package, {"x": 0}) == "terminate"
    assert target(Router(package, frozenset()).rule_after("B", {})) == "C"


def test_an_ag2_network_takes_the_first_rule_in_strict_file_order(tmp_path: Path) -> None:
    rules = [rule("A", "B", "${x} > 0"), rule("A", "C"), rule("A", "terminate"), rule("A", "A", "${x} < 0")]
    package = package_of(tmp_path, *rules, pattern="ag2_network")

    assert route_after(package, {"x": 1}) == "B"
    assert route_after(package, {"x": -1}) == "C"


@pytest.mark.design("D4-52")
def test_pre_rules_count_before_the_reply_only(tmp_path: Path) -> None:
    package = package_of(
        tmp_path,
        rule("A", "B", "${x}", condition_scope="pre"),
        rule("A", "C", "${y}", condition_scope="pre"),
        rule("A", "terminate"),
    )
    router = Router(package, frozenset())

    assert target(router.rule_before("A", {"x": 1, "y": 1})) == "B"
    assert target(router.rule_before("A", {"y": 1})) == "C"
    assert router.rule_before("A", {}) is None
    assert router.rule_before("B", {"x": 1}) is None
    assert target(router.rule_after("A", {"x": 1})) == "terminate"


def test_an_agent_stays_when_a_rule_leads_back_to_it(tmp_path: Path) -> None:
    stay = {"source_agent": "A", "transition_target": "StayTarget", "handoff_type": "condition", "condition": "${x}"}
    package = package_of(tmp_path, stay, rule("A", "terminate"))

    assert route_after(package, {"x": 1}) == "A"
    assert route_after(package, {}) == "terminate"


async def test_an_agent_that_stays_before_its_reply_speaks(tmp_path: Path) -> None:
    rules = [rule("A", "stay", "${x}", condition_scope="pre"), rule("A", "B", "True", condition_scope="pre")]
    package = package_of(tmp_path, *rules, rule("A", "terminate"))
    staying = Chat(build_chat(package, {"default": {"text": "ok"}}, tmp_path), {"x": True})

    outcome, kept = await staying.run()

    assert (outcome.kind, kept.speakers) == (OutcomeKind.COMPLETED, ["A"])


def test_what_a_model_judges_is_asked_by_no_condition(tmp_path: Path) -> None:
    judged = rule("A", "B", "it is ready", condition_type="string_llm")
    router = Router(package_of(tmp_path, judged), frozenset())

    assert (router.rule_before("A", {}), router.rule_after("A", {})) == (None, None)
    assert [router.has_rules(name) for name in "AB"] == [True, False]


def test_the_rules_of_a_version_are_compiled_once_for_all_its_chats(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = package_of(tmp_path, *(rule("A", "B", f"${{once_{number}}}") for number in range(50)))
    compiled: list[str] = []

    def note_and_compile(text: str) -> Condition:
        compiled.append(text)
        return compile_condition(text)

    monkeypatch.setattr(router, "compile_condition", note_and_compile)
    for _ in range(100):
        Router(package, frozenset({"x"})).rule_after("A", {"once_49": True})

    assert len(compiled) == 50


def test_a_suppressed_variable_never_routes(tmp_path: Path) -> None:
    package = package_of(tmp_path, rule("A", "B", "not ${flag}"), rule("A", "C"))

    assert route_after(package, {}) == "B"
    assert route_after(package, {}, suppressed=frozenset({"flag"})) == "C"


@pytest.mark.parametrize("pattern", ["DefaultPattern", "ag2_network"])
def test_no_rule_that_applies_is_an_end_of_its_own(tmp_path: Path, pattern: str) -> None:
    package = package_of(tmp_path, rule("A", "B", "${x}"), pattern=pattern)

    outcome = end_outcome(Router(package, frozenset()).rule_after("A", {}), package, "A")

    assert outcome is not None
    assert (outcome.kind, outcome.stranded) == (OutcomeKind.NO_TRANSITION, True)


@pytest.mark.parametrize(
    ("reason", "kind", "said"),
    [
        (None, OutcomeKind.COMPLETED, "A ends the chat"),
        ("workflow_complete", OutcomeKind.COMPLETED, "workflow_complete"),
        ("workflow_failed", OutcomeKind.WORKFLOW_FAILED, "a rule of A ends the chat as failed"),
    ],
)
def test_the_reason_of_a_terminating_rule_decides(
    tmp_path: Path, reason: str | None, kind: OutcomeKind, said: str
) -> None:
    package = package_of(tmp_path, rule("A", "terminate", termination_reason=reason))

    outcome = end_outcome(package.rules[0], package, "A")

    assert outcome is not None
    assert (outcome.kind, outcome.reason) == (kind, said)


@pytest.mark.parametrize(("human", "kind"), [(True, OutcomeKind.NEEDS_HUMAN), (False, OutcomeKind.COMPLETED)])
def test_a_rule_to_a_user(tmp_path: Path, human: bool, kind: OutcomeKind) -> None:
    package = package_of(tmp_path, rule("A", "user"), human=human)

    outcome = end_outcome(package.rules[0], package, "A")

    assert outcome is not None
    assert outcome.kind is kind


def test_a_rule_to_an_agent_is_no_end(tmp_path: Path) -> None:
    package = package_of(tmp_path, rule("A", "B"))
    assert end_outcome(package.rules[0], package, "A") is None


def test_a_package_without_rules_is_complete_after_its_turn(tmp_path: Path) -> None:
    package = package_of(tmp_path)

    outcome = end_outcome(Router(package, frozenset()).rule_after("A", {}), package, "A")

    assert outcome is not None
    assert outcome.kind is OutcomeKind.COMPLETED
