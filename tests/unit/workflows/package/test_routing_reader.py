"""The reader of rules: every root and spelling, and every broken shape with the exact finding."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given as generated
from hypothesis import strategies as st

from workflows.context.expressions.routing_conditions import compile_condition
from workflows.package.findings import Finding, Findings
from workflows.package.normal_form.package_model import Pattern, Rule
from workflows.package.readers.routing.routing_reader import read_rules
from workflows.package.readers.routing.worded_conditions import DeclaredTypes, translate_condition
from workflows.package.readers.section import Section

FILE = "handoffs.yaml"
AGENTS = frozenset({"A", "B", "C"})
AB: dict[str, Any] = {"source_agent": "A", "target_agent": "B"}


def read(
    body: Any, pattern: Pattern = "DefaultPattern", names: DeclaredTypes | None = None
) -> tuple[tuple[Rule, ...], tuple[Finding, ...]]:
    findings = Findings()
    section = Section(body, file=FILE, path="", findings=findings)
    return read_rules(section, agents=AGENTS, declared_types=names or {}, pattern=pattern), findings.all


def one(entry: Any, pattern: Pattern = "DefaultPattern") -> tuple[Rule, list[tuple[str, str, str]]]:
    rules, findings = read({"handoff_rules": [entry]}, pattern)
    assert {finding.file for finding in findings} <= {FILE}
    return rules[0], [
        (finding.level, finding.code, finding.path.removeprefix("handoff_rules[0].")) for finding in findings
    ]


def read_without_findings(**written: Any) -> Rule:
    rule, found = one({**AB, **written})
    assert found == []
    return rule


def ways(rules: tuple[Rule, ...]) -> list[tuple[str, str, str | None]]:
    return [(rule.source, rule.target, rule.condition) for rule in rules]


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"handoff_rules": [AB]}, "handoff_rules[0]"),
        ({"transition_rules": [AB]}, "transition_rules[0]"),
        ({"transitions": [AB]}, "transitions[0]"),
        ({"handoffs": [AB]}, "handoffs[0]"),
        ({"transition_graph": [AB]}, "transition_graph[0]"),
        ({"handoffs": {"handoff_rules": [AB]}}, "handoffs.handoff_rules[0]"),
        ({"handoffs": {"transition_rules": [AB]}, "schema_version": "v1"}, "handoffs.transition_rules[0]"),
        ({"transition_graph": {"transition_rules": [AB], "version": 1}}, "transition_graph.transition_rules[0]"),
        ({"handoff_rules": [AB], "transition_rules": [], "handoffs": None}, "handoff_rules[0]"),
    ],
)
def test_rules_stand_under_several_roots_and_know_their_place(body: Any, place: str) -> None:
    rules, findings = read(body)
    assert findings == ()
    assert rules == (Rule("A", "B", place=place),)


@pytest.mark.parametrize("body", [{}, {"handoff_rules": []}, {"handoffs": {}}, {"handoffs": {"handoff_rules": None}}])
def test_no_rules_are_no_fault(body: Any) -> None:
    assert read(body) == ((), ())


@pytest.mark.parametrize("source", ["source_agent", "source", "from", "after_turn"])
@pytest.mark.parametrize("target", ["target_agent", "target", "to"])
def test_ends_of_a_rule_have_several_names(source: str, target: str) -> None:
    rule, found = one({source: "A", target: "B"})
    assert (rule.source, rule.target, found) == ("A", "B", [])


@pytest.mark.parametrize(
    ("word", "meant"),
    [(word, "user") for word in ("user", "USER", "user_proxy", "UserProxy", "human", "RevertToUser")]
    + [(word, "terminate") for word in ("terminate", "TERMINATE", "end", "Stop")],
)
def test_targets_have_other_words(word: str, meant: str) -> None:
    assert read_without_findings(target_agent=word).target == meant


@pytest.mark.parametrize(
    ("target", "kind"),
    [("B", "AgentTarget"), ("user", "RevertToUserTarget"), ("TERMINATE", "TerminateTarget"), ("B", "agenttarget")],
)
def test_a_target_s_kind_agrees_with_its_name(target: str, kind: str) -> None:
    assert read_without_findings(target_agent=target, transition_target=kind).source == "A"


@pytest.mark.parametrize(("kind", "target"), [("RevertToUserTarget", "user"), ("TerminateTarget", "terminate")])
def test_a_targets_kind_is_enough_where_it_is_complete(kind: str, target: str) -> None:
    rule, found = one({"from": "A", "transition_target": kind})
    assert (rule.target, found) == (target, [])


@pytest.mark.parametrize(
    ("written", "condition"),
    [
        ({}, None),
        ({"handoff_type": "after_work"}, None),
        ({"transition_type": "after_turn"}, None),
        ({"handoff_type": "After_Work", "condition": None, "condition_type": None, "condition_scope": None}, None),
        ({"handoff_type": "after_work", "condition": True}, None),
        ({"handoff_type": "condition", "condition_type": "expression", "condition": "${x} == true"}, "${x} == true"),
        ({"condition_type": "Context", "condition": "${x}"}, "${x}"),
        ({"transition_type": "condition", "condition_type": "context_expression", "context_expression": "${x}"}, "${x}"),
        ({"context_expression": "len(${x}) > 0"}, "len(${x}) > 0"),
        ({"condition": "${x} == 'a'"}, "${x} == 'a'"),
        ({"condition": "context_variables.x is not null"}, "context_variables.x is not null"),
        ({"handoff_type": "condition", "condition": True}, "True"),
        ({"handoff_type": "condition", "condition_type": "expression", "condition": False}, "False"),
        ({"condition": "true"}, "true"),
        ({"conditions": ["context_variables.x is null"]}, "context_variables.x is null"),
        ({"conditions": ["${x} or ${y}", "${z} != 1"]}, "(${x} or ${y}) and (${z} != 1)"),
        ({"conditions": "${x}"}, "${x}"),
        ({"conditions": ["${y}", True], "condition": "${x}"}, "(${x}) and (${y}) and (True)"),
        ({"condition": "${x}", "conditions": []}, "${x}"),
        ({"condition_type": "context_equals", "condition_key": "x", "condition_value": "it's"}, '${x} == "it\'s"'),
        ({"condition_type": "context_equals", "condition_key": "x"}, "${x} == None"),
        ({"condition_key": "x", "condition_value": True}, "${x} == True"),
        ({"condition_key": "x", "condition_value": -5}, "${x} == -5"),
        ({"condition_key": "x", "condition_value": 0.5}, "${x} == 0.5"),
        ({"condition_key": "x", "condition_value": "${y} # \\ 'q' \"r\"\n"}, "${x} == '${y} # \\\\ \\'q\\' \"r\"\\n'"),
    ],
)  # fmt: skip
def test_conditions_have_one_form(written: dict[str, Any], condition: str | None) -> None:
    for pattern in ("DefaultPattern", "ag2_network"):
        rule, found = one({**AB, **written}, pattern)
        assert (rule.condition, rule.judgement, found) == (condition, None, [])


@pytest.mark.parametrize(
    ("word", "scope"),
    [(word, "pre") for word in ("pre", "before_reply", "immediate", "context_pre", "PRE")]
    + [(word, "post") for word in ("post", "after", "", None)],
)
@pytest.mark.parametrize("field", ["condition_scope", "scope"])
def test_scopes_have_several_words(field: str, word: object, scope: str) -> None:
    assert read_without_findings(condition="${x}", **{field: word}).scope == scope


def test_what_describes_a_rule_is_kept() -> None:
    rule, found = one({"from": "A", "to": "end", "termination_reason": "workflow_failed", "description": "gives up"})
    assert found == []
    assert rule == Rule(
        "A", "terminate", termination_reason="workflow_failed", description="gives up", place="handoff_rules[0]"
    )


@pytest.mark.parametrize(
    ("written", "judged", "place"),
    [
        ({"condition_type": "string_llm", "condition": "The user agrees"}, "The user agrees", "condition"),
        ({"condition_type": "LLM", "condition": "${x} looks good"}, "${x} looks good", "condition"),
        ({"handoff_type": "condition", "condition": "When the user agrees"}, "When the user agrees", "condition"),
        ({"condition": "the context_variables.x is fine"}, "the context_variables.x is fine", "condition"),
        ({"condition_type": "llm", "conditions": ["a", "b"]}, "a and b", "conditions[0]"),
    ],
)
def test_a_model_s_judgement_is_read_and_unusual_in_a_network(written: dict[str, Any], judged: str, place: str) -> None:
    rules, findings = read({"handoff_rules": [{**AB, **written}]})

    assert (rules[0].condition, rules[0].judgement, rules[0].scope) == (None, judged, "post")
    assert findings == ()
    unusual = one({**AB, **written}, "ag2_network")
    assert unusual == (rules[0], [("warning", "judged_by_model", place)])


NAMES: DeclaredTypes = {
    **dict.fromkeys(("interview_complete", "monetization_enabled", "sandbox"), "boolean"),
    **dict.fromkeys(("stage", "app_id"), "string"),
    "rounds": "integer",
    "score": "number",
    "order": "object",
    "given": None,
}
DONE = "${interview_complete} == True"


@pytest.mark.design("D1-39", "D1-38", "D4-51")
@pytest.mark.parametrize(
    ("words", "expression"),
    [
        ("When interview_complete is true", DONE),
        (
            "When monetization_enabled is true AND interview_complete is true",
            f"${{monetization_enabled}} == True and {DONE}",
        ),
        ("interview_complete == true", DONE),
        ("interview_complete=TRUE", DONE),
        ("  when interview_complete IS yes.  ", DONE),
        ("interview_complete is 'false' and sandbox = no", "${interview_complete} == False and ${sandbox} == False"),
        ("stage is done", "${stage} == 'done'"),
        ('When stage is "ready to pay"', "${stage} == 'ready to pay'"),
        ("stage is true", "${stage} == 'true'"),
        ("stage is 5", "${stage} == '5'"),
        ("stage is geprüft", "${stage} == 'geprüft'"),
        ("stage is null", "${stage} == null"),
        ("stage is none", "${stage} in [null, 'none']"),
        ("rounds == 3", "${rounds} == 3"),
        ("rounds is -3", "${rounds} == -3"),
        ("score is 0.5", "${score} == 0.5"),
        ("order.status is paid", "${order.status} == 'paid'"),
        ("order.total == 12", "${order.total} == 12"),
        ("given is true", "${given} == True"),
        ("app_id is acme", "${app_id} == 'acme'"),
    ],
)
@pytest.mark.parametrize("written", [{}, {"condition_type": "expression"}, {"handoff_type": "condition"}])
def test_words_about_declared_names_are_an_expression(words: str, expression: str, written: dict[str, str]) -> None:
    rules, findings = read({"handoff_rules": [{**AB, **written, "condition": words}]}, names=NAMES)

    assert (rules[0].condition, rules[0].judgement) == (expression, None)
    [finding] = findings
    assert (finding.level, finding.code, finding.path) == ("info", "read_as_expression", "handoff_rules[0].condition")
    assert expression in finding.message
    compile_condition(expression)


@pytest.mark.parametrize(
    ("words", "expression"),
    [
        ("rounds is many", "${rounds} == 'many'"),
        ("interview_complete is given", "${interview_complete} == 'given'"),
        ("score is 'high'", "${score} == 'high'"),
    ],
)
def test_a_value_that_its_variable_never_has_is_a_finding(words: str, expression: str) -> None:
    rules, findings = read({"handoff_rules": [{**AB, "condition": words}]}, names=NAMES)

    assert rules[0].condition == expression
    assert [finding.code for finding in findings] == ["read_as_expression", "wrong_type_of_value"]


@pytest.mark.parametrize(
    "words",
    [
        "When the user is happy",
        "When stage is ready for review",
        "When stage is not done",
        "stage is a",
        "When stage is",
        "stage",
        "When stage is done or sandbox is true",
        "stage is done AND the user agrees",
        "stage is done AND",
        "When interview_complete",
        "stage > 5",
        "not interview_complete is true",
        "ünknown is true",
        f"stage is {'x' * 1990}",
        f"order.{'a.' * 50_000}b is 3",
        "",
    ],
)
def test_other_words_are_for_a_model_as_before(words: str) -> None:
    rules, findings = read({"handoff_rules": [{**AB, "condition": words or "x"}]}, names=NAMES)
    assert (rules[0].condition, rules[0].judgement, findings) == (None, words or "x", ())


@pytest.mark.parametrize("words", ["intervew_complete == true", "When intervew_complete is true"])
def test_a_misspelt_name_is_a_finding_before_a_model_judges(words: str) -> None:
    rules, findings = read({"handoff_rules": [{**AB, "condition": words}]}, names=NAMES)

    assert rules[0].judgement == words
    [finding] = findings
    assert (finding.level, finding.code) == ("warning", "undefined_variable")
    assert "did you mean interview_complete?" in finding.message


def test_words_that_a_model_is_to_judge_are_left_to_it() -> None:
    words = {"condition": "When interview_complete is true", "condition_type": "string_llm"}
    rules, findings = read({"handoff_rules": [{**AB, **words}]}, names=NAMES)
    assert (rules[0].judgement, findings) == ("When interview_complete is true", ())


def test_words_and_expressions_are_joined() -> None:
    several = {"conditions": ["stage is done", "${rounds} > 2"]}
    rules, _ = read({"handoff_rules": [{**AB, **several}]}, names=NAMES)
    assert rules[0].condition == "(${stage} == 'done') and (${rounds} > 2)"
    rules, _ = read({"transitions": [{"after_turn": "A", "terminate_if": "stage is done"}]}, names=NAMES)
    assert rules[0].condition == "${stage} == 'done'"


@pytest.mark.parametrize(
    ("written", "advised"),
    [
        ({"condition": "When ${stage} is fine"}, True),
        ({"conditions": ["${stage}", "${stage} =="]}, True),
        ({"condition": "When ${stage} is fine", "condition_type": "expression"}, False),
    ],
)
def test_a_text_that_may_be_meant_for_a_model_shows_how(written: dict[str, Any], advised: bool) -> None:
    _, findings = read({"handoff_rules": [{**AB, **written}]}, names=NAMES)
    [finding] = findings
    assert finding.code == "bad_condition"
    assert ("write condition_type: string_llm to let a model judge it" in finding.message) is advised


def test_words_beside_a_judgement_are_judged_as_they_are_written() -> None:
    several = {"conditions": ["stage is done", "the user is happy"]}
    rules, findings = read({"handoff_rules": [{**AB, **several}]}, names=NAMES)
    assert (rules[0].condition, rules[0].judgement, findings) == (None, "stage is done and the user is happy", ())


@generated(st.text(alphabet="when stageisdo=AND.'\" \n", max_size=80))
def test_any_words_are_an_expression_that_compiles_or_none(text: str) -> None:
    expression = translate_condition(text, NAMES)
    if expression is not None:
        compile_condition(expression)


def test_a_model_judges_during_the_reply_whatever_scope_is_written() -> None:
    rule, found = one({**AB, "condition_type": "string_llm", "condition": "all is said", "condition_scope": "pre"})

    assert rule.scope == "post"
    assert found == [("warning", "not_executed", "condition_scope")]


@pytest.mark.parametrize(
    "written",
    [
        {"transition_target": "StayTarget"},
        {"transition_target": "StayTarget", "to": "A"},
        {"transition_target": "staytarget", "to": "stay"},
        {"to": "stay"},
        {"to": "SELF"},
        {"to": "A"},
    ],
)
def test_an_agent_stays_in_several_words(written: dict[str, Any]) -> None:
    rule, found = one({"from": "A", "condition": "${x}", **written})
    assert (rule.source, rule.target, found) == ("A", "A", [])


def test_an_agent_may_be_called_stay() -> None:
    findings = Findings()
    section = Section({"handoff_rules": [{"from": "A", "to": "stay"}]}, file=FILE, path="", findings=findings)

    (rule,) = read_rules(section, agents=AGENTS | {"stay"}, declared_types={})

    assert (rule.target, findings.all) == ("stay", ())


def test_the_end_after_a_turn_has_a_short_form() -> None:
    rules, findings = read(
        {
            "transitions": [
                {"after_turn": "user", "terminate_if": {"variable": "x", "equals": "bye"}},
                {"after_turn": "A", "terminate_if": "${x} > 3", "transition_target": "TerminateTarget"},
                {"after_turn": "A", "to": "B"},
            ]
        }
    )
    assert findings == ()
    assert ways(rules) == [
        ("user", "terminate", "${x} == 'bye'"),
        ("A", "terminate", "${x} > 3"),
        ("A", "B", None),
    ]


# One fault a line, however long.
# ruff: noqa: E501
@pytest.mark.parametrize(
    ("written", "level", "code", "path"),
    [
        ({"source_agent": None}, "error", "missing_field", "source_agent"),
        ({"target_agent": None}, "error", "missing_field", "target_agent"),
        ({"source_agent": "D"}, "error", "unknown_agent", "source_agent"),
        ({"source_agent": None, "from": "D"}, "error", "unknown_agent", "from"),
        ({"source_agent": "terminate"}, "error", "wrong_value", "source_agent"),
        ({"target_agent": "D"}, "error", "unknown_agent", "target_agent"),
        ({"target_agent": "b"}, "error", "unknown_agent", "target_agent"),
        ({"from": "C"}, "warning", "not_executed", "from"),
        ({"transition_target": "TerminateTarget"}, "error", "wrong_value", "transition_target"),
        ({"transition_target": "RevertToUserTarget"}, "error", "wrong_value", "transition_target"),
        ({"target_agent": "user", "transition_target": "AgentTarget"}, "error", "wrong_value", "transition_target"),
        ({"transition_target": "NestedChatTarget"}, "error", "wrong_value", "transition_target"),
        ({"transition_target": "StayTarget"}, "error", "wrong_value", "transition_target"),
        ({"transition_target": ["AgentTarget"]}, "error", "wrong_type", "transition_target"),
        ({"handoff_type": "sometimes"}, "error", "wrong_value", "handoff_type"),
        ({"transition_type": "sometimes"}, "error", "wrong_value", "transition_type"),
        ({"transition_type": "condition"}, "error", "missing_field", "condition"),
        ({"handoff_type": "condition", "condition": ""}, "error", "missing_field", "condition"),
        ({"handoff_type": "condition", "condition": "  "}, "error", "missing_field", "condition"),
        ({"handoff_type": "condition", "conditions": []}, "error", "missing_field", "condition"),
        ({"handoff_type": "condition", "conditions": [None]}, "error", "missing_field", "conditions[0]"),
        ({"condition_type": "expression"}, "error", "missing_field", "condition"),
        ({"condition_type": "tool_called", "condition": "${x}"}, "error", "wrong_value", "condition_type"),
        ({"condition_type": 5, "condition": "${x}"}, "error", "wrong_type", "condition_type"),
        ({"condition": ["${x}"]}, "error", "wrong_type", "condition"),
        ({"condition": 5}, "error", "wrong_type", "condition"),
        ({"conditions": {"a": "${x}"}}, "error", "wrong_type", "conditions"),
        ({"conditions": ["${x}", 5]}, "error", "wrong_type", "conditions[1]"),
        ({"condition": "${x"}, "error", "bad_condition", "condition"),
        ({"condition_type": "expression", "condition": "the user agrees"}, "error", "bad_condition", "condition"),
        ({"context_expression": "${x}.y"}, "error", "bad_condition", "context_expression"),
        ({"conditions": ["${x}", "${y} =="]}, "error", "bad_condition", "conditions[1]"),
        ({"conditions": [f"${{x}} == '{'a' * 1500}'"] * 2}, "error", "bad_condition", "conditions[0]"),
        ({"condition_type": "context_equals"}, "error", "missing_field", "condition_key"),
        ({"condition_key": "a b"}, "error", "wrong_value", "condition_key"),
        ({"condition_key": "x} == 1 or ${y"}, "error", "wrong_value", "condition_key"),
        ({"condition_key": "x", "condition_value": {"$ne": None}}, "error", "wrong_value", "condition_value"),
        ({"condition_key": "x", "condition_value": ["a"]}, "error", "wrong_value", "condition_value"),
        ({"condition_key": "x", "condition_value": 2**70}, "error", "wrong_value", "condition_value"),
        ({"condition_key": "x", "condition_value": float("nan")}, "error", "wrong_value", "condition_value"),
        ({"condition_key": "x", "condition_value": float("inf")}, "error", "wrong_value", "condition_value"),
        ({"condition": "${x}", "condition_key": "x"}, "warning", "not_executed", "condition_key"),
        ({"condition_value": "x"}, "warning", "not_executed", "condition_value"),
        ({"handoff_type": "after_work", "condition": "${x}"}, "warning", "not_executed", "condition"),
        ({"transition_type": "after_turn", "conditions": ["${x}"]}, "warning", "not_executed", "conditions"),
        ({"condition": "${x}", "condition_scope": "sideways"}, "error", "wrong_value", "condition_scope"),
        ({"condition": "${x}", "scope": 5}, "error", "wrong_type", "scope"),
        ({"condition_scope": "pre"}, "warning", "not_executed", "condition_scope"),
        ({"termination_reason": "workflow_failed"}, "warning", "not_executed", "termination_reason"),
        ({"trigger": "NEXT"}, "warning", "not_executed", "trigger"),
        ({"description": 5}, "error", "wrong_type", "description"),
        ({"priority": True}, "error", "wrong_value", "priority"),
        ({"priority": "1"}, "error", "wrong_value", "priority"),
        ({"priority": float("nan")}, "error", "wrong_value", "priority"),
        ({"weight": 1}, "warning", "not_executed", "weight"),
        ({"terminate_if": {"variable": "x", "equals": 1}}, "error", "wrong_value", "terminate_if"),
        ({"target_agent": None, "terminate_if": {"equals": 1}}, "error", "missing_field", "terminate_if.variable"),
        ({"target_agent": None, "terminate_if": {}}, "error", "missing_field", "terminate_if"),
        ({"target_agent": None, "terminate_if": ["x"]}, "error", "wrong_type", "terminate_if"),
        ({"target_agent": None, "terminate_if": "done"}, "error", "bad_condition", "terminate_if"),
        ({"target_agent": None, "terminate_if": {"variable": "x", "equals": 1, "or": 2}}, "warning", "not_executed", "terminate_if.or"),
    ],
)  # fmt: skip
def test_a_fault_is_one_finding(written: Mapping[str, Any], level: str, code: str, path: str) -> None:
    assert one({**AB, **written})[1] == [(level, code, path)]


@pytest.mark.parametrize(
    ("body", "level", "code", "path"),
    [
        ({"handoff_rules": 5}, "error", "wrong_type", "handoff_rules"),
        ({"handoffs": {"handoff_rules": "A > B"}}, "error", "wrong_type", "handoffs.handoff_rules"),
        ({"handoff_rules": [AB], "transition_rules": [AB]}, "error", "two_roots", "transition_rules"),
        ({"rules": [AB]}, "error", "unknown_root", "rules"),
        ({"handoff_rules": {"first": AB}}, "error", "unknown_root", "handoff_rules.first"),
        ({"handoff_rules": [], "metadata": {"by": "me"}}, "warning", "not_executed", "metadata"),
        ({"handoff_rules": [], "max_turns": 5}, "warning", "not_executed", "max_turns"),
        ([AB], "error", "wrong_type", ""),
        ({"handoff_rules": [AB, "A > B"]}, "error", "wrong_type", "handoff_rules[1]"),
        ({"handoffs": [None]}, "error", "wrong_type", "handoffs[0]"),
    ],
)
def test_a_fault_of_the_file_is_found_where_it_is(body: Any, level: str, code: str, path: str) -> None:
    assert [(finding.level, finding.code, finding.path) for finding in read(body)[1]] == [(level, code, path)]


def rules_in_order(*rules: Mapping[str, Any], pattern: Pattern = "DefaultPattern") -> list[str]:
    read_in_order, findings = read({"handoff_rules": [{"from": "A", **rule} for rule in rules]}, pattern)
    assert not [finding for finding in findings if finding.level == "error"]
    return [rule.target for rule in read_in_order]


@pytest.mark.design("D4-53")
def test_priority_orders_the_rules_of_a_source_and_file_order_the_rest() -> None:
    rules = (
        {"to": "B", "condition": "${x} == 1"},
        {"to": "C", "condition": "${x} == 2", "priority": 2},
        {"to": "user", "condition": "${x} == 3", "priority": 1},
        {"to": "end", "condition": "${x} == 4", "priority": 2},
    )
    assert rules_in_order(*rules) == ["user", "C", "terminate", "B"]
    assert rules_in_order(*rules, pattern="ag2_network") == ["user", "C", "terminate", "B"]


def test_of_rules_without_a_condition_the_lowest_priority_is_taken() -> None:
    rules = ({"to": "B", "priority": 1}, {"to": "C", "priority": 2}, {"to": "end"})
    assert rules_in_order(*rules)[-1] == "B"  # a classic pattern takes the last
    assert rules_in_order(*rules, pattern="ag2_network")[0] == "B"  # this one the first


def unreached_findings(*rules: Mapping[str, Any], pattern: Pattern = "DefaultPattern") -> list[tuple[str, str, str]]:
    _, findings = read({"handoff_rules": [{"from": "A", **rule} for rule in rules]}, pattern)
    return [(finding.level, finding.code, finding.path) for finding in findings]


ALWAYS, WHEN = {"to": "B"}, {"to": "C", "condition": "${x}"}
TRUE, BEFORE = {"to": "B", "condition": True}, {"to": "B", "condition": True, "scope": "pre"}
SHADOWED, UNREACHABLE = ("warning", "shadowed_rule"), ("warning", "unreachable_rule")


@pytest.mark.parametrize(
    ("pattern", "rules", "expected"),
    [
        ("DefaultPattern", [ALWAYS, WHEN], []),
        ("DefaultPattern", [ALWAYS, WHEN, ALWAYS], [(*SHADOWED, 0)]),
        ("DefaultPattern", [ALWAYS, ALWAYS, ALWAYS], [(*SHADOWED, 1), (*SHADOWED, 0)]),
        ("DefaultPattern", [WHEN, TRUE], []),
        ("DefaultPattern", [ALWAYS, TRUE, WHEN], [(*UNREACHABLE, 2), (*UNREACHABLE, 0)]),
        ("DefaultPattern", [WHEN, BEFORE], [(*UNREACHABLE, 0)]),
        ("DefaultPattern", [ALWAYS, {"from": "C", "to": "B"}], []),
        ("ag2_network", [WHEN, ALWAYS], []),
        ("ag2_network", [ALWAYS, WHEN], [(*UNREACHABLE, 1)]),
        ("ag2_network", [ALWAYS, ALWAYS], [(*UNREACHABLE, 1)]),
        ("ag2_network", [WHEN, TRUE, WHEN, ALWAYS], [(*UNREACHABLE, 2), (*UNREACHABLE, 3)]),
    ],
)
def test_a_rule_that_is_never_reached_is_reported(
    pattern: Pattern, rules: list[Mapping[str, Any]], expected: list[tuple[str, str, int]]
) -> None:
    places = [(level, code, f"handoff_rules[{index}]") for level, code, index in expected]
    assert unreached_findings(*rules, pattern=pattern) == places


def test_a_broken_rule_and_a_judged_one_hide_no_other() -> None:
    broken, judged = {"to": "B", "handoff_type": "condition"}, {"to": "B", "condition": "the user agrees"}

    for pattern in ("DefaultPattern", "ag2_network"):
        codes = [code for _, code, _ in unreached_findings(broken, WHEN, pattern=pattern)]
        assert codes == ["missing_field"]
    assert [code for _, code, _ in unreached_findings(judged, WHEN, ALWAYS)] == []


FIELDS = ["source_agent", "to", "handoff_type", "condition", "conditions", "condition_key", "condition_value"]
FIELDS += ["condition_type", "terminate_if", "priority", "scope", "variable", "handoff_rules", "transition_target"]
junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.sampled_from(["A", "${x}", "condition", "pre", "\ud800"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(FIELDS) | st.integers(), inner, max_size=6)
    ),
    max_leaves=12,
)  # fmt: skip


@generated(st.fixed_dictionaries({"handoff_rules": st.lists(junk, max_size=3)}) | junk, st.booleans())
def test_anything_is_read_or_found(body: Any, network: bool) -> None:
    rules, findings = read(body, "ag2_network" if network else "DefaultPattern")
    unnamed = [rule for rule in rules if not (rule.source and rule.target)]
    assert findings or not unnamed
