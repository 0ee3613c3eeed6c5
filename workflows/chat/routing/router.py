"""Routing: the next speaker by the package's rules, in the order AG2's users know.

Before an agent replies, its pre-scope rules are evaluated; a match skips the reply. After the reply come the other
conditions in file order, then the last rule without one. An `ag2_network` package evaluates all of its rules in strict
file order. A condition judged by a model is offered to it during the reply: see `workflows.chat.routing.transfers`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from workflows.chat.history.transcript import Turn
from workflows.context.expressions.routing_conditions import Condition, compile_condition
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.normal_form.package_model import TERMINATE, USER, Package, Rule

MAX_CACHED_VERSIONS = 128


@dataclass(frozen=True, slots=True)
class _SourceRules:
    """The rules of one source in evaluation order; without a condition a rule holds."""

    before: tuple[tuple[Rule, Condition | None], ...]
    after: tuple[tuple[Rule, Condition | None], ...]


_NO_RULES = _SourceRules((), ())


class Router:
    """Evaluates rules. Made for every chat, so its tables are cached per version."""

    def __init__(self, package: Package, suppressed: frozenset[str]) -> None:
        self._rules = _rules_by_source(package.rules, package.orchestrator.pattern == "ag2_network")
        self._suppressed = suppressed

    def rule_before(self, agent: str, values: Mapping[str, Any]) -> Rule | None:
        return self._first_match(self._rules.get(agent, _NO_RULES).before, values)

    def rule_after(self, agent: str, values: Mapping[str, Any]) -> Rule | None:
        return self._first_match(self._rules.get(agent, _NO_RULES).after, values)

    def has_rules(self, agent: str) -> bool:
        """Returns whether the package has any rule of this agent, also a judged one."""
        return agent in self._rules

    def _first_match(self, rules: Sequence[tuple[Rule, Condition | None]], values: Mapping[str, Any]) -> Rule | None:
        for rule, condition in rules:
            if condition is None or condition.holds(values, suppressed=self._suppressed):
                return rule
        return None


@lru_cache(maxsize=MAX_CACHED_VERSIONS)
def _rules_by_source(rules: tuple[Rule, ...], strict: bool) -> Mapping[str, _SourceRules]:
    by_source: dict[str, list[Rule]] = {}
    for rule in rules:
        by_source.setdefault(rule.source, []).append(rule)
    return {source: _order_rules(own, strict=strict) for source, own in by_source.items()}


def _order_rules(rules: Sequence[Rule], *, strict: bool) -> _SourceRules:
    plain = [rule for rule in rules if rule.judgement is None]
    after = [rule for rule in plain if rule.scope == "post"]
    if not strict:
        fallbacks = [rule for rule in after if rule.condition is None]
        after = [*(rule for rule in after if rule.condition is not None), *fallbacks[-1:]]
    return _SourceRules(*(_compile_rules(group) for group in ([rule for rule in plain if rule.scope == "pre"], after)))


def _compile_rules(rules: Sequence[Rule]) -> tuple[tuple[Rule, Condition | None], ...]:
    return tuple((rule, None if rule.condition is None else compile_condition(rule.condition)) for rule in rules)


def end_outcome(rule: Rule | None, package: Package, agent: str, turns: Sequence[Turn] = ()) -> Outcome | None:
    """Returns the outcome that this rule means; None for a hand-off to an agent.

    `turns` are the earlier ones."""
    if rule is None:
        if not package.rules:
            return Outcome(OutcomeKind.COMPLETED, "finished after one turn; no hand-off rules")
        return _no_rule_outcome(package, agent, turns)
    if rule.target == TERMINATE:
        if rule.termination_reason == OutcomeKind.WORKFLOW_FAILED.value:
            return Outcome(OutcomeKind.WORKFLOW_FAILED, f"a rule of {agent} ends the chat as failed")
        return Outcome(OutcomeKind.COMPLETED, rule.termination_reason or f"{agent} ends the chat")
    if rule.target == USER:
        if package.orchestrator.human_in_the_loop:
            return Outcome(OutcomeKind.NEEDS_HUMAN, f"{agent} hands over to a person")
        return Outcome(OutcomeKind.COMPLETED, f"{agent} hands over to a user, and no person is in the chat")
    return None


def _no_rule_outcome(package: Package, agent: str, turns: Sequence[Turn]) -> Outcome:
    own = [rule for rule in package.rules if rule.source == agent and (rule.condition or rule.judgement) is not None]
    reason = f"no rule of {agent} applies"
    if not own or _was_taken(own, package.orchestrator.initial_agent, turns):
        return Outcome(OutcomeKind.NO_TRANSITION, reason)
    return Outcome(OutcomeKind.NO_TRANSITION, f"{reason}; none of its conditions held in this run", stranded=True)


def _was_taken(own: Sequence[Rule], first: str, turns: Sequence[Turn]) -> bool:
    """Returns whether a turn took one of these rules, which are all of one agent."""
    agent, targets = own[0].source, {rule.target for rule in own}
    if any(turn.agent == agent and turn.handoff in targets for turn in turns):
        return True
    # A pre rule held if a turn was handed to one agent and taken by another.
    before = {rule.target for rule in own if rule.scope == "pre" and rule.judgement is None}
    passed_over = (
        (to, turn.agent) for to, turn in zip((first, *(turn.handoff for turn in turns)), turns, strict=False)
    )
    return bool(before) and any(to != speaker and (to == agent or speaker in before) for to, speaker in passed_over)
