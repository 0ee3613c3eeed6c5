"""JMESPath expressions in package files, and the names of the input that they use."""

from collections.abc import Mapping
from typing import Any

import jmespath

from workflows.package.jmespath_problems import find_jmespath_problem
from workflows.package.readers.section import Section

WHOLE_INPUT = "@"
# Only their first part is evaluated over the input; the others are evaluated over its result.
_STEP_TYPES = frozenset(
    {"subexpression", "pipe", "index_expression", "projection", "value_projection", "filter_projection"}
)


def read_expression(section: Section, field: str) -> str | None:
    text = section.text(field)
    if text is None:
        return None
    problem = find_jmespath_problem(text)
    if problem is not None:
        section.error("bad_expression", field, problem)
        return None
    return text


def referenced_names(expression: str) -> frozenset[str]:
    """Returns the top-level names that an expression uses.

    Includes `@` if it uses the whole input.
    """
    return frozenset(_node_names(jmespath.compile(expression).parsed))


def _node_names(node: Mapping[str, Any]) -> set[str]:
    kind, children = node["type"], node.get("children", [])
    if kind == "field":
        return {node["value"]}
    if kind == "current":
        return {WHOLE_INPUT}
    if kind == "expref":  # evaluated over the elements of a list
        return set()
    over_input = children[:1] if kind in _STEP_TYPES else children
    return set().union(*(_node_names(child) for child in over_input if isinstance(child, Mapping)))
