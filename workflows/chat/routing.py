"""Routing: who speaks next, by the package's rules, in the order AG2's users know.

Before an agent replies its pre-scope rules are asked; a match skips the reply. After the reply the other
conditions are asked in file order, then the last rule without one. An `ag2_network` package asks all of its
rules in strict file order. Nothing matched: the chat ends.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from workflows.context.conditions import Condition, compile_condition
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.models import TERMINATE, USER, Package, Rule

_compiled = lru_cache(maxsize=4096)(compile_condition)


@dataclass(frozen=True, slots=True)
class Router:
    package: Package
    suppressed: frozenset[str]

    def before(self, agent: str, values: Mapping[str, Any]) -> Rule | None:
        return self._first((rule for rule in self._rules(agent) if rule.scope == "pre"), values)

    def after(self, agent: str, values: Mapping[str, Any]) -> Rule | None:
        rules = [rule for rule in self._rules(agent) if rule.scope == "post"]
        if self.package.orchestrator.pattern == "ag2_network":
            return self._first(rules, values)
        conditional = self._first((rule for rule in rules if rule.condition is not None), values)
        fallbacks = [rule for rule in rules if rule.condition is None]
        return conditional or (fallbacks[-1] if fallbacks else None)

    def _rules(self, agent: str) -> Iterable[Rule]:
        return (rule for rule in self.package.rules if rule.source == agent and rule.judged is None)

    def _first(self, rules: Iterable[Rule], values: Mapping[str, Any]) -> Rule | None:
        return next((rule for rule in rules if self._holds(rule, values)), None)

    def _holds(self, rule: Rule, values: Mapping[str, Any]) -> bool:
        if rule.condition is None:
            return True
        condition: Condition = _compiled(rule.condition)
        return condition.holds(values, suppressed=self.suppressed)


def ending(rule: Rule | None, package: Package, agent: str) -> Outcome | None:
    """The outcome this rule means, or None when it hands over to another agent."""
    if rule is None:
        if not package.rules:
            return Outcome(OutcomeKind.COMPLETED, "the package has no routing; one turn is the whole chat")
        return Outcome(OutcomeKind.NO_TRANSITION, f"no rule of {agent} applies")
    if rule.target == TERMINATE:
        if rule.termination_reason == OutcomeKind.WORKFLOW_FAILED.value:
            return Outcome(OutcomeKind.WORKFLOW_FAILED, f"a rule of {agent} ends the chat as failed")
        return Outcome(OutcomeKind.COMPLETED, rule.termination_reason or f"{agent} ends the chat")
    if rule.target == USER:
        if package.orchestrator.human_in_the_loop:
            return Outcome(OutcomeKind.NEEDS_HUMAN, f"{agent} hands over to a person")
        return Outcome(OutcomeKind.COMPLETED, f"{agent} hands over to a user, and nobody is in the chat")
    return None
