"""Reads hand-offs or the transition graph: rules, in the order in which they are asked.

File order, unless `priority` says otherwise: of one source's rules the lower number is asked first, and rules
without one come after those that have it. Of several rules without a condition a classic pattern takes the
last in file order, or the one with the lowest priority; `ag2_network` takes the first rule that holds.
"""

import math
from collections.abc import Iterator, Mapping
from typing import Any, Literal

from workflows.package.normal_form.package_model import TERMINATE, USER, Pattern, Rule
from workflows.package.readers.field_aliases import normalize_speaker, used_field_name
from workflows.package.readers.routing.rule_conditions import ALWAYS_HOLDS, RuleCondition, read_rule_condition
from workflows.package.readers.routing.rule_order import order_rules, report_unreachable
from workflows.package.readers.routing.worded_conditions import DeclaredTypes
from workflows.package.readers.section import MAX_NUMBER, Section

_ROOTS = ("handoff_rules", "transition_rules", "handoffs", "transitions", "transition_graph")
_SOURCE_FIELDS = ("source_agent", "source", "from", "after_turn")
_TARGET_FIELDS = ("target_agent", "target", "to")
_TARGET_KINDS = {"reverttousertarget": USER, "terminatetarget": TERMINATE, "agenttarget": None, "staytarget": None}
_STAY_WORDS = frozenset({"stay", "self"})
_PRE_WORDS = frozenset({"pre", "before_reply", "immediate", "context_pre"})
_POST_WORDS = frozenset({"", "post", "after"})


def read_rules(
    section: Section, *, agents: frozenset[str], declared_types: DeclaredTypes, pattern: Pattern = "DefaultPattern"
) -> tuple[Rule, ...]:
    """Patterns differ in what several rules without a condition mean, and AG2's own network asks no model. `names`
    are those that a condition in words may be about."""
    strict = pattern == "ag2_network"
    read = [
        _read_rule(entry, agents, allows_model=not strict, declared_types=declared_types)
        for entry in _iter_entries(section)
    ]
    rules = order_rules(read, is_strict=strict)
    report_unreachable(rules, section, is_strict=strict)
    return rules


def _iter_entries(section: Section) -> Iterator[Section]:
    """The rules stand under one of several names, some of them one inside of another."""
    written = [name for name in _ROOTS if section.body.get(name) not in (None, [], {})]
    section.skip_metadata(*_ROOTS)
    for second in written[1:]:
        section.error("two_roots", second, f"stands beside {written[0]}, which holds rules too; keep one list")
    if section.body.keys().isdisjoint(_ROOTS):
        _report_misnamed_rules(section)
    section.report_unread("is no part of routing; check the spelling, or leave it out")
    if not written:
        return
    root, body = written[0], section.body[written[0]]
    if isinstance(body, list):
        for index, entry in enumerate(body):
            one = section.child(entry, f"{root}[{index}]")  # says what is no mapping
            if isinstance(entry, Mapping):
                yield one
    elif isinstance(body, Mapping):
        yield from _iter_entries(section.child(body, root))
    else:
        section.error("wrong_type", root, "must be a list of rules")


def _report_misnamed_rules(section: Section) -> None:
    """Without any of its rules a package would run, and each chat end where none was meant to."""
    for name, value in section.body.items():
        if isinstance(value, list | Mapping) and value:
            section.get(name)
            section.error("unknown_root", str(name), "is not read as rules; write them as a list under handoff_rules")


def _read_rule(
    section: Section, agents: frozenset[str], *, allows_model: bool, declared_types: DeclaredTypes
) -> tuple[Rule, float]:
    source = _read_source(section, agents)
    target = _read_target(section, agents, source)
    when = read_rule_condition(section, allows_model=allows_model, declared_types=declared_types)
    rule = Rule(
        source=source,
        target=target,
        condition=when.condition,
        judgement=when.judgement,
        scope=_read_scope(section, when),
        termination_reason=_read_termination_reason(section, target),
        description=section.text("description") or "",
        place=section.path,
    )
    if section.get("trigger"):
        message = "is not looked for in what an agent says; let a derived variable watch for it and route on that"
        section.report_ignored("trigger", message)
    priority = _read_priority(section)
    section.report_unread()
    return rule, priority


def _read_source(section: Section, agents: frozenset[str]) -> str:
    field = used_field_name(section, *_SOURCE_FIELDS)
    source = normalize_speaker(section.required_text(field))
    if source == TERMINATE:
        section.error("wrong_value", field, "is the end of the chat, and nothing follows it; name an agent or user")
    else:
        _check_known(section, field, source, agents)
    return source


def _read_target(section: Section, agents: frozenset[str], source: str) -> str:
    """`transition_target`, and `terminate_if`, say of themselves where a rule leads; a name beside must agree."""
    field = used_field_name(section, *_TARGET_FIELDS)
    place = "transition_target" if section.body.get("transition_target") is not None else "terminate_if"
    kind = _read_target_kind(section)
    implied = source if kind == "staytarget" else _TARGET_KINDS.get(kind or "")
    implied = TERMINATE if section.body.get("terminate_if") is not None else implied
    if section.body.get(field) is None and implied is not None:
        return implied
    target = normalize_speaker(section.required_text(field))
    if target.lower() in _STAY_WORDS and target not in agents:
        target = source
    if implied is not None and target != implied:
        section.error("wrong_value", place, f"leads to {implied}, but {field} is {target}; make them agree")
    elif target in (USER, TERMINATE) and kind == "agenttarget":
        section.error("wrong_value", place, f"leads to an agent, but {field} is {target}; make them agree")
    _check_known(section, field, target, agents)
    return target


def _read_target_kind(section: Section) -> str | None:
    kind = section.text("transition_target")
    if kind is not None and kind.lower() not in _TARGET_KINDS:
        message = f"{kind} is not one of AgentTarget, RevertToUserTarget, StayTarget, TerminateTarget"
        section.error("wrong_value", "transition_target", message)
    return kind.lower() if kind is not None else None


def _check_known(section: Section, field: str, name: str, agents: frozenset[str]) -> None:
    if name and name not in agents | {USER, TERMINATE}:
        section.error("unknown_agent", field, f"{name} is not an agent of this package; correct it, or add the agent")


def _read_scope(section: Section, rule_condition: RuleCondition) -> Literal["pre", "post"]:
    field = used_field_name(section, "condition_scope", "scope")
    scope = (section.text(field) or "").strip().lower()
    if scope not in _PRE_WORDS | _POST_WORDS:
        section.error("wrong_value", field, f"{scope} is neither pre nor post")
    if scope in _PRE_WORDS and rule_condition == ALWAYS_HOLDS:
        section.report_ignored(field, "a rule without a condition is asked after the reply; leave it out")
    elif scope in _PRE_WORDS and rule_condition.judgement is not None:
        section.report_ignored(field, "a model judges during the reply, not before; leave it out")
    return "pre" if scope in _PRE_WORDS and rule_condition.condition is not None else "post"


def _read_termination_reason(section: Section, target: str) -> str | None:
    reason = section.text("termination_reason")
    if reason is not None and target != TERMINATE:
        section.report_ignored("termination_reason", "says why a chat ends, and this rule does not end it")
    return reason


def _read_priority(section: Section) -> float:
    """Lower is asked first; a rule without one comes last."""
    value: Any = section.get("priority")
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MAX_NUMBER <= value <= MAX_NUMBER:
        section.error("wrong_value", "priority", "must be a number such as 1; lower is asked first")
        return math.inf
    return float(value)
