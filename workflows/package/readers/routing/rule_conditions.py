"""Conditions of hand-offs: none, an expression, or a text for a model."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workflows.context.expressions.routing_conditions import ConditionError, compile_condition
from workflows.package.readers.field_aliases import used_field_name
from workflows.package.readers.routing.worded_conditions import (
    DeclaredTypes,
    find_misfits,
    find_unknown_names,
    translate_condition,
)
from workflows.package.readers.section import Section

_ALWAYS_TYPES = frozenset({"after_work", "after_turn"})
_EXPRESSION_TYPES = frozenset({"expression", "context_expression", "context"})
_MODEL_TYPES = frozenset({"llm", "string_llm"})
_EQUALS_TYPE = "context_equals"
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_MAX_NUMBER = 2**63
_TEXT_FIELDS = ("condition", "context_expression", "conditions")
_CONDITION_FIELDS = (*_TEXT_FIELDS, "condition_key")


@dataclass(frozen=True, slots=True)
class RuleCondition:
    """The condition of a rule.

    Without an expression and a judgement the rule always holds.
    """

    condition: str | None = None
    judgement: str | None = None


ALWAYS_HOLDS = RuleCondition()
_INVALID = RuleCondition("False")  # of a rule with an error: it must not make other rules look unreachable


def read_rule_condition(section: Section, *, allows_model: bool, declared_types: DeclaredTypes) -> RuleCondition:
    """Reads the condition. `allows_model`: the pattern lets a model judge rules."""
    terminate_if = section.get("terminate_if")
    if terminate_if is not None:
        return _read_terminate_if(section, terminate_if, declared_types)
    kind_field = used_field_name(section, "handoff_type", "transition_type")
    kind = (section.text(kind_field) or "").strip().lower()
    if kind not in {"", "condition", *_ALWAYS_TYPES}:
        section.get(*_CONDITION_FIELDS, "condition_type", "condition_value")
        section.error("wrong_value", kind_field, f"{kind} is neither after_work nor condition")
        return _INVALID
    fields = [field for field in _CONDITION_FIELDS if section.body.get(field) not in (None, [], "")]
    condition_type = (section.text("condition_type") or "").strip().lower()
    if kind in _ALWAYS_TYPES:
        _report_ignored_conditions(section, kind, fields)
        return ALWAYS_HOLDS
    if kind == "" and not fields and not condition_type:
        return ALWAYS_HOLDS
    return _read_condition(section, condition_type, fields, allows_model=allows_model, declared_types=declared_types)


def _read_terminate_if(section: Section, terminate_if: object, declared_types: DeclaredTypes) -> RuleCondition:
    """Reads `{variable: stage, equals: done}`, or an expression."""
    if isinstance(terminate_if, str):
        texts = {"terminate_if": terminate_if}
        return _make_expression(
            section, _report_translations(section, texts, _translate_words(texts, declared_types), declared_types)
        )
    part = section.child(terminate_if, "terminate_if")
    rule_condition = _read_equals(part, "variable", "equals") if part.body else _INVALID
    if isinstance(terminate_if, dict) and not terminate_if:
        part.error("missing_field", "", "is empty; write {variable: stage, equals: done}")
    part.report_unread()
    return rule_condition


def _report_ignored_conditions(section: Section, kind: str, written_fields: list[str]) -> None:
    section.get(*_CONDITION_FIELDS, "condition_value")
    for field in written_fields:
        if section.body[field] is not True:
            section.report_ignored(
                field, f"has no effect: a rule of type {kind} always holds; write handoff_type: condition"
            )


def _read_condition(
    section: Section,
    condition_type: str,
    written_fields: list[str],
    *,
    allows_model: bool,
    declared_types: DeclaredTypes,
) -> RuleCondition:
    if condition_type not in {"", _EQUALS_TYPE, *_EXPRESSION_TYPES, *_MODEL_TYPES}:
        section.get(*_CONDITION_FIELDS, "condition_value")
        message = f"{condition_type} is not a condition type; use expression, context_equals or string_llm"
        section.error("wrong_value", "condition_type", message)
        return _INVALID
    if condition_type == _EQUALS_TYPE or (not condition_type and written_fields == ["condition_key"]):
        return _read_equals(section, "condition_key", "condition_value")
    if not any(field in written_fields for field in _TEXT_FIELDS):
        section.error("missing_field", "condition", "is required for a rule of type condition")
        return _INVALID
    texts = {
        place: text
        for place, value in _iter_written(section, written_fields)
        if (text := _read_text(section, place, value))
    }
    if not texts:
        return _INVALID
    if condition_type in _MODEL_TYPES:
        return _make_judgement(section, texts, allows_model=allows_model)
    expressions = _translate_words(texts, declared_types)
    if condition_type or all(map(_is_expression, expressions.values())):
        return _make_expression(section, _report_translations(section, texts, expressions, declared_types))
    _report_unknown_names(section, texts, declared_types)
    # As written: beside a judgement, conditions in words are judged too.
    return _make_judgement(section, texts, allows_model=allows_model)


def _translate_words(texts: Mapping[str, str], declared_types: DeclaredTypes) -> dict[str, str]:
    """Replaces conditions in words by expressions."""
    return {place: translate_condition(text, declared_types) or text for place, text in texts.items()}


def _report_translations(
    section: Section, texts: Mapping[str, str], expressions: dict[str, str], declared_types: DeclaredTypes
) -> dict[str, str]:
    for place, expression in expressions.items():
        if expression != texts[place]:
            message = f"is read as {expression}; write condition_type: string_llm to let a model judge it"
            section.info("read_as_expression", place, message)
            for name, value, declared in find_misfits(texts[place], declared_types):
                message = (
                    f"compares {name}, which is declared as {declared}, with {value[:100]!r}, which it never equals"
                )
                section.warning("wrong_type_of_value", place, f"{message}; correct the value, or the type")
    return expressions


def _report_unknown_names(section: Section, texts: Mapping[str, str], declared_types: DeclaredTypes) -> None:
    """Warns of misspelt names.

    A comparison with one silently becomes a question to a model.
    """
    for place, text in texts.items():
        for name in find_unknown_names(text, declared_types):
            near = section.findings.suggest_name(name, declared_types)
            advice = f"did you mean {near}?" if near else "declare it as a variable or an input"
            message = f"compares {name}, which is not declared, so a model judges the text instead; {advice}"
            section.warning("undefined_variable", place, message)


def _read_equals(section: Section, key_field: str, value_field: str) -> RuleCondition:
    key, value = section.required_text(key_field), section.get(value_field)
    if key and not _VARIABLE_NAME.fullmatch(key):
        section.error("wrong_value", key_field, "must be the name of a context variable: letters, digits, _")
    elif not _is_scalar(value):
        section.error("wrong_value", value_field, "must be text, a number up to 64 bits, true, false or null")
    elif key:
        return _make_expression(section, {value_field: f"${{{key}}} == {value!r}"})
    return _INVALID


def _is_scalar(value: object) -> bool:
    if isinstance(value, int | float):  # false for infinity and NaN, which expressions cannot contain
        return -_MAX_NUMBER <= value < _MAX_NUMBER
    return value is None or isinstance(value, str)


def _iter_written(section: Section, written_fields: list[str]) -> Iterator[tuple[str, object]]:
    """Yields every condition of the rule with its place. All of them must hold."""
    for field in (field for field in _TEXT_FIELDS if field in written_fields):
        value = section.get(field)
        if field == "conditions" and isinstance(value, list):
            yield from ((f"conditions[{index}]", entry) for index, entry in enumerate(value))
        else:
            yield field, value


def _read_text(section: Section, place: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        section.error("missing_field", place, "is empty; write a condition such as ${stage} == 'done', or remove it")
    elif isinstance(value, str):
        return value
    else:
        section.error("wrong_type", place, "must be text such as ${stage} == 'done', or true or false")
    return ""


def _is_expression(text: str) -> bool:
    """Returns whether a text without condition_type is an expression.

    Otherwise it is a text for a model.
    """
    if "${" in text:
        return True
    if "context_variables." not in text and text.strip().lower() not in ("true", "false"):
        return False
    try:
        compile_condition(text)
    except ConditionError:
        return False
    return True


def _make_judgement(section: Section, texts: dict[str, str], *, allows_model: bool) -> RuleCondition:
    place = next(iter(texts))
    if not allows_model:
        message = (
            "is a text for a model, which AG2's own network does not judge: here the agent's model is offered the rule"
            " as a tool; write an expression over context variables if that is not intended"
        )
        section.warning("judged_by_model", place, message)
    return RuleCondition(judgement=" and ".join(texts.values()))


def _make_expression(section: Section, texts: dict[str, str]) -> RuleCondition:
    for place, text in texts.items():
        if not _check_compiles(section, place, text):
            return _INVALID
    joined = next(iter(texts.values())) if len(texts) == 1 else " and ".join(f"({text})" for text in texts.values())
    if len(texts) > 1 and not _check_compiles(section, next(iter(texts)), joined):
        return _INVALID
    return RuleCondition(joined)


def _check_compiles(section: Section, place: str, text: str) -> bool:
    try:
        compile_condition(text)
    except ConditionError as error:
        is_untyped = place.startswith("condition") and section.body.get("condition_type") is None
        advice = "; write condition_type: string_llm to let a model judge it" if is_untyped else ""
        section.error("bad_condition", place, f"{error}{advice}")
        return False
    return True
