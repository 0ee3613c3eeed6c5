"""Reads hand-offs or the transition graph: rules in file order."""

from collections.abc import Iterator, Mapping
from typing import Any

from workflows.context.conditions import ConditionError, compile_condition
from workflows.package.models import TERMINATE, USER, Rule
from workflows.package.reading.section import Section

_USER_WORDS = {"user", "user_proxy", "userproxy", "human", "reverttouser"}
_TERMINATE_WORDS = {"terminate", "end", "stop"}
_ALWAYS = {"after_work", "after_turn"}
_EXPRESSION = {"expression", "context_expression", "context"}
_LLM = {"llm", "string_llm"}
_PRE = {"pre", "before_reply", "immediate", "context_pre"}
_POST = {"", "post", "after"}


def read_rules(section: Section, *, agents: frozenset[str]) -> tuple[Rule, ...]:
    rules = []
    for one in _entries(section):
        rule = _rule(one)
        for field, name in (("source_agent", rule.source), ("target_agent", rule.target)):
            if name and name not in agents | {USER, TERMINATE}:
                one.error("unknown_agent", field, f"{name} is not an agent of this package")
        rules.append(rule)
    _report_shadowed(section, rules)
    return tuple(rules)


def _entries(section: Section) -> Iterator[Section]:
    body: Any = section.get("handoff_rules", "transition_rules", "handoffs", "transitions")
    if isinstance(body, Mapping):
        body = body.get("handoff_rules")
    if body is None:
        body = []
    if not isinstance(body, list):
        section.error("wrong_type", "handoff_rules", "must be a list of rules")
        return
    for index, entry in enumerate(body):
        yield Section(entry, file=section.file, path=f"handoff_rules[{index}]", findings=section.findings)
    section.get("schema_version", "max_turns")
    section.report_rest()


def _rule(section: Section) -> Rule:
    source = _agent_name(section.required_text("source_agent", "source", "from"))
    target = _agent_name(section.required_text("target_agent", "target", "to"))
    _check_target_kind(section, target)
    condition = _condition(section)
    section.get("description", "priority")
    rule = Rule(
        source=source,
        target=target,
        condition=condition,
        scope=_scope(section),
        termination_reason=section.text("termination_reason"),
    )
    section.report_rest()
    return rule


def _agent_name(raw: str) -> str:
    word = raw.lower()
    if word in _USER_WORDS:
        return USER
    return TERMINATE if word in _TERMINATE_WORDS else raw


def _check_target_kind(section: Section, target: str) -> None:
    kind = section.text("transition_target")
    if kind is None:
        return
    expected = {USER: "RevertToUserTarget", TERMINATE: "TerminateTarget"}.get(target, "AgentTarget")
    if kind != expected:
        section.error("wrong_value", "transition_target", f"is {kind}, but {target} needs {expected}")


def _scope(section: Section) -> Any:
    scope = (section.text("condition_scope") or "").lower()
    if scope not in _PRE | _POST:
        section.error("wrong_value", "condition_scope", f"{scope} is neither pre nor post")
    return "pre" if scope in _PRE else "post"


def _condition(section: Section) -> str | None:
    """An expression, or None for a rule that always holds."""
    kind = (section.text("handoff_type", "transition_type") or "").lower()
    raw = section.get("condition", "context_expression")
    condition_type = (section.text("condition_type") or "").lower()
    key, value = section.text("condition_key"), section.get("condition_value")
    if section.get("conditions"):
        section.error("unsupported", "conditions", "a list is not supported; write one `condition`, joined with and")
    if kind not in {"", "condition", *_ALWAYS}:
        section.error("wrong_value", "handoff_type", f"{kind} is neither after_work nor condition")
    if kind in _ALWAYS and (raw not in (None, True) or key is not None):
        section.ignored("condition", f"a rule of type {kind} always holds; write handoff_type: condition")
    if kind in _ALWAYS or (kind == "" and not condition_type and raw is None and key is None):
        return None
    if isinstance(raw, bool):
        return "True" if raw else "False"
    if condition_type == "context_equals" or (not condition_type and key is not None and raw is None):
        if key is None:
            section.error("missing_field", "condition_key", "is needed for context_equals")
        return _checked(section, f"${{{key}}} == {value!r}") if key else None
    return _written_condition(section, raw, condition_type)


def _written_condition(section: Section, raw: Any, condition_type: str) -> str | None:
    if not isinstance(raw, str) or not raw.strip():
        section.error("missing_field", "condition", "a rule of type condition needs a condition")
        return None
    if condition_type in _LLM or (not condition_type and "${" not in raw):
        section.error("unsupported", "condition", "a condition that a model judges is not supported; use an expression")
        return None
    if condition_type and condition_type not in _EXPRESSION:
        section.error("wrong_value", "condition_type", f"{condition_type} is not known; use expression")
        return None
    return _checked(section, raw)


def _checked(section: Section, expression: str) -> str:
    try:
        compile_condition(expression)
    except ConditionError as error:
        section.error("bad_condition", "condition", str(error))
    return expression


def _report_shadowed(section: Section, rules: list[Rule]) -> None:
    unconditional = [rule.source for rule in rules if rule.condition is None]
    for source in sorted({name for name in unconditional if unconditional.count(name) > 1}):
        section.warning("shadowed_rule", "", f"{source} has several rules without a condition; the last one holds")
