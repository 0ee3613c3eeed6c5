"""The next speakers that a pattern allows if no rule applies.

`workflows.chat.routing.next_speaker` decides the same in a chat.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from workflows.package.normal_form.package_model import TERMINATE, Package

CHOICE = "<choice>"  # a node that leads to every agent; no agent can have this name
CHOOSING_PATTERNS = frozenset({"AutoPattern", "RoundRobinPattern", "RandomPattern"})
TURN_TAKING_PATTERNS = frozenset({"RoundRobinPattern", "RandomPattern"})


def pattern_targets(
    package: Package, rules: Mapping[str, Sequence[int]], always_hold: Collection[int]
) -> dict[str, tuple[str, ...]]:
    """Returns the targets by source.

    `rules`: by source, the indices of the rules that can apply.

    A rule that always holds leaves no choice to the pattern.
    """
    pattern, names = package.orchestrator.pattern, tuple(package.agents)
    if pattern == "Pipeline":
        sources = {rule.source for rule in package.rules}
        return {name: (after or TERMINATE,) for name, after in _pair_with_next(names) if name not in sources}
    if pattern not in CHOOSING_PATTERNS:
        return {}
    undecided = [name for name in names if not any(index in always_hold for index in rules.get(name, ()))]
    if pattern == "RoundRobinPattern":
        following = dict(_pair_with_next(names))
        return {name: (following[name] or names[0],) for name in undecided}
    choices = (*names, TERMINATE) if pattern == "AutoPattern" else names
    return {CHOICE: choices, **dict.fromkeys(undecided, (CHOICE,))}


def _pair_with_next(names: Sequence[str]) -> Iterable[tuple[str, str | None]]:
    return zip(names, (*names[1:], None), strict=True)
