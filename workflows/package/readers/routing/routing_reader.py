"""The reader of hand-offs and transition graphs: rules in evaluation order.

The order is file order, unless rules have a `priority`: lower numbers come first, rules without one come last. Of
several rules without a condition, classic patterns take the last in file order, or the one with the lowest priority;
`ag2_network` takes the first rule that holds.
"""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal

from workflows.package.normal_form.package_model import TERMINATE, USER, Pattern, Rule
from workflows.package.readers.field_aliases import normalize_speaker, used_field_name
from workflows.package.readers.routing.rule_conditions import ALWAYS_HOLDS, RuleCondition, read_rule_condition
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
    """Reads the rules. `declared_types`: the names that a condition in words may use."""
    is_strict = pattern == "ag2_network"
    ranked_rules = [
        _read_rule(entry, agents, allows_model=not is_strict, declared_types=declared_types)
        for entry in _iter_entries(section)
    ]
    rules = order_rules(ranked_rules, is_strict=is_strict)
    report_unreachable(rules, section, is_strict=is_strict)
    return rules


def _iter_entries(section: Section) -> Iterator[Section]:
    """Yields the entries under any of the root names, which may be nested."""
    roots = [name for name in _ROOTS if section.body.get(name) not in (None, [], {})]
    section.skip_metadata(*_ROOTS)
    for second in roots[1:]:
        section.error("two_roots", second, f"is beside {roots[0]}, which has rules too; keep one list")
    if section.body.keys().isdisjoint(_ROOTS):
        _report_misnamed_rules(section)
    section.report_unread("is not a field of routing; check the spelling, or remove it")
    if not roots:
        return
    root, body = roots[0], section.body[roots[0]]
    if isinstance(body, list):
        for index, entry in enumerate(body):
            rule = section.child(entry, f"{root}[{index}]")  # reports an entry that is not a mapping
            if isinstance(entry, Mapping):
                yield rule
    elif isinstance(body, Mapping):
        yield from _iter_entries(section.child(body, root))
    else:
        section.error("wrong_type", root, "must be a list of rules")


def _report_misnamed_rules(section: Section) -> None:
    """Reports misspelt roots as errors.

    Without its rules a package would run, and chats would end early.
    """
    for name, value in section.body.items():
        if isinstance(value, list | Mapping) and value:
            section.get(name)
            section.error("unknown_root", str(name), "is not read; write rules as a list under handoff_rules")


def _read_rule(
    section: Section, agents: frozenset[str], *, allows_model: bool, declared_types: DeclaredTypes
) -> tuple[Rule, float]:
    source = _read_source(section, agents)
    target = _read_target(section, agents, source)
    rule_condition = read_rule_condition(section, allows_model=allows_model, declared_types=declared_types)
    rule = Rule(
        source=source,
        target=target,
        condition=rule_condition.condition,
        judgement=rule_condition.judgement,
        scope=_read_scope(section, rule_condition),
        termination_reason=_read_termination_reason(section, target),
        description=section.text("description") or "",
        place=section.path,
    )
    if section.get("trigger"):
        message = "is not searched in replies; set a derived variable by it, and route on that variable"
        section.report_ignored("trigger", message)
    priority = _read_priority(section)
    section.report_unread()
    return rule, priority


def _read_source(section: Section, agents: frozenset[str]) -> str:
    field = used_field_name(section, *_SOURCE_FIELDS)
    source = normalize_speaker(section.required_text(field))
    if source == TERMINATE:
        section.error("wrong_value", field, "is the end of the chat, which has no next speaker; name an agent or user")
    else:
        _check_known(section, field, source, agents)
    return source


def _read_target(section: Section, agents: frozenset[str], source: str) -> str:
    """Reads the target.

    `transition_target` and `terminate_if` imply one, which a written name must match.
    """
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
        section.error("wrong_value", place, f"leads to {implied}, but {field} is {target}; correct one of them")
    elif target in (USER, TERMINATE) and kind == "agenttarget":
        section.error("wrong_value", place, f"leads to an agent, but {field} is {target}; correct one of them")
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
        section.report_ignored(
            field, "has no effect: a rule without a condition is evaluated after the reply; remove it"
        )
    elif scope in _PRE_WORDS and rule_condition.judgement is not None:
        section.report_ignored(field, "has no effect: a model judges during the reply, not before; remove it")
    return "pre" if scope in _PRE_WORDS and rule_condition.condition is not None else "post"


def _read_termination_reason(section: Section, target: str) -> str | None:
    reason = section.text("termination_reason")
    if reason is not None and target != TERMINATE:
        section.report_ignored("termination_reason", "has no effect: this rule does not end the chat")
    return reason


def _read_priority(section: Section) -> float:
    """Returns the priority.

    Lower numbers are evaluated first, and rules without one last.
    """
    value: Any = section.get("priority")
    if value is None:
        return math.inf
    if isinstance(value, bool) or not isinstance(value, int | float) or not -MAX_NUMBER <= value <= MAX_NUMBER:
        section.error("wrong_value", "priority", "must be a number such as 1; lower numbers come first")
        return math.inf
    return float(value)


def order_rules(ranked_rules: Sequence[tuple[Rule, float]], *, is_strict: bool) -> tuple[Rule, ...]:
    """Sorts rules by priority.

    `is_strict`: the first rule that holds is taken, even without a condition.
    """
    if all(priority == math.inf for _, priority in ranked_rules):
        return tuple(rule for rule, _ in ranked_rules)
    ranked = sorted(ranked_rules, key=lambda entry: entry[1])
    if is_strict:
        return tuple(rule for rule, _ in ranked)
    # Classic patterns take the last unconditional rule, so the lowest priority number comes last.
    unconditional = sorted((rule for rule in ranked_rules if _is_unconditional(rule[0])), key=lambda entry: -entry[1])
    conditional = [entry for entry in ranked if not _is_unconditional(entry[0])]
    return tuple(rule for rule, _ in [*conditional, *unconditional])


def report_unreachable(rules: Sequence[Rule], section: Section, *, is_strict: bool) -> None:
    for source in dict.fromkeys(rule.source for rule in rules):
        certain: Rule | None = None
        for rule in _evaluation_order([rule for rule in rules if rule.source == source], is_strict=is_strict):
            if certain is not None:
                _report_rule(rule, certain, section, is_strict=is_strict)
            elif rule.condition in (None, "True"):
                certain = rule


def _evaluation_order(rules: Iterable[Rule], *, is_strict: bool) -> list[Rule]:
    """Returns the rules in evaluation order, without judged ones.

    A model judges those during the reply.
    """
    plain = [rule for rule in rules if rule.judgement is None]
    before = [rule for rule in plain if rule.scope == "pre"]
    after = [rule for rule in plain if rule.scope == "post"]
    if is_strict:
        return [*before, *after]
    fallbacks = [rule for rule in after if _is_unconditional(rule)]
    return [*before, *(rule for rule in after if not _is_unconditional(rule)), *reversed(fallbacks)]


def _report_rule(rule: Rule, certain: Rule, section: Section, *, is_strict: bool) -> None:
    if not is_strict and _is_unconditional(rule) and _is_unconditional(certain):
        message = (
            f"is never taken: of the rules of {rule.source} without a condition, {certain.place} is taken; keep one"
        )
        section.findings.add("warning", "shadowed_rule", section.file, rule.place, message)
    else:
        message = f"is never reached: {certain.place} always holds and is evaluated before; move it after this rule"
        section.findings.add("warning", "unreachable_rule", section.file, rule.place, message)


def _is_unconditional(rule: Rule) -> bool:
    return rule.condition is None and rule.judgement is None
