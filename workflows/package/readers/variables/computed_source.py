"""Computed variables: an expression over other variables.

Without an expression a tool writes the value.
"""

from collections.abc import Mapping

from workflows.package.normal_form.variable_sources import ComputedSource, WriteTarget
from workflows.package.readers.jmespath_fields import WHOLE_INPUT, read_expression, referenced_names
from workflows.package.readers.section import Section
from workflows.package.readers.variables.write_targets import read_write_target

FUNCTION_HINT = (
    "a computation is a JMESPath expression over its inputs, such as sum([a, b]), and cannot call a function"
    " of the package; compute the value in a tool or a lifecycle tool, and set it there"
)


def read_computed_source(source: Section) -> ComputedSource:
    """Reads a computed source.

    A `persist_to` that names a variable is resolved after all variables are read.
    """
    computation = read_expression(source, "computation")
    inputs = _read_inputs(source)
    if computation is not None:
        inputs = _complete_inputs(source, inputs, referenced_names(computation), expression=computation.strip())
    return ComputedSource(computation, inputs, _read_persist_to(source))


def _read_inputs(source: Section) -> Mapping[str, str]:
    """Returns variables by their names in the expression, from a list or a mapping."""
    raw = source.get("inputs") or {}
    pairs = dict(raw) if isinstance(raw, Mapping) else None
    if isinstance(raw, list) and all(isinstance(name, str) for name in raw):
        pairs = {name: name for name in raw}
    if pairs is None or not all(isinstance(part, str) for pair in pairs.items() for part in pair):
        source.error("wrong_type", "inputs", "must be a list of variables, or a mapping of names to variables")
        return {}
    return pairs


def _complete_inputs(
    source: Section, inputs: Mapping[str, str], names: frozenset[str], *, expression: str
) -> Mapping[str, str]:
    named = names - {WHOLE_INPUT}
    if not inputs:
        if WHOLE_INPUT in names:
            source.error("missing_field", "inputs", "is required, since the expression uses its whole input as @")
        return {name: name for name in sorted(named)}
    missing = sorted(named - set(inputs))
    if missing == [expression]:
        source.error(
            "unknown_input", "computation", f"{expression} is not one of the inputs: add it there; {FUNCTION_HINT}"
        )
    elif missing:
        message = f"uses {', '.join(missing)}, which is not in inputs; add it there"
        source.error("unknown_input", "computation", message)
    return inputs


def _read_persist_to(source: Section) -> WriteTarget | None:
    raw = source.get("persist_to")
    if raw is None or isinstance(raw, str):
        return None
    target = source.child(raw, "persist_to")
    return read_write_target(target) if isinstance(raw, Mapping) else None
