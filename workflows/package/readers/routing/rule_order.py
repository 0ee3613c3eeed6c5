"""The evaluation order of rules, and the rules that it never reaches."""

import math
from collections.abc import Iterable, Sequence

from workflows.package.normal_form.package_model import Rule
from workflows.package.readers.section import Section


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
