"""Reads when a hand-off holds: always, by an expression over the context, or as a model judges."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from workflows.context.conditions import ConditionError, compile_condition
from workflows.package.reading.section import Section
from workflows.package.reading.spelling import spelled
from workflows.package.reading.worded_conditions import Names, as_expression, misfits, unknown_names

_ALWAYS = frozenset({"after_work", "after_turn"})
_EXPRESSION = frozenset({"expression", "context_expression", "context"})
_MODEL = frozenset({"llm", "string_llm"})
_EQUALS = "context_equals"
_VARIABLE_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.]*")
_LARGEST_NUMBER = 2**63
_TEXTS = ("condition", "context_expression", "conditions")
_FIELDS = (*_TEXTS, "condition_key")


@dataclass(frozen=True, slots=True)
class When:
    """Neither an expression nor a judgement: always."""

    condition: str | None = None
    judged: str | None = None


ALWAYS = When()
_BROKEN = When("False")  # of a rule that is reported as an error: it makes no other rule look unreachable


def read_when(section: Section, *, by_model: bool, names: Names) -> When:
    """`by_model`: rules that a model judges are nothing unusual in this pattern. `names` may stand in words."""
    ending = section.get("terminate_if")
    if ending is not None:
        return _terminate_if(section, ending, names)
    kind_field = spelled(section, "handoff_type", "transition_type")
    kind = (section.text(kind_field) or "").strip().lower()
    if kind not in {"", "condition", *_ALWAYS}:
        section.get(*_FIELDS, "condition_type", "condition_value")
        section.error("wrong_value", kind_field, f"{kind} is neither after_work nor condition")
        return _BROKEN
    given = [field for field in _FIELDS if section.body.get(field) not in (None, [], "")]
    condition_type = (section.text("condition_type") or "").strip().lower()
    if kind in _ALWAYS:
        _report_not_asked(section, kind, given)
        return ALWAYS
    if kind == "" and not given and not condition_type:
        return ALWAYS
    return _condition(section, condition_type, given, by_model=by_model, names=names)


def _terminate_if(section: Section, ending: object, names: Names) -> When:
    """`{variable: stage, equals: done}`, or an expression."""
    if isinstance(ending, str):
        texts = {"terminate_if": ending}
        return _expression(section, _reported(section, texts, _without_words(texts, names), names))
    part = section.child(ending, "terminate_if")
    when = _equals(part, "variable", "equals") if part.body else _BROKEN
    if isinstance(ending, dict) and not ending:
        part.error("missing_field", "", "is empty; write {variable: stage, equals: done}")
    part.report_rest()
    return when


def _report_not_asked(section: Section, kind: str, given: list[str]) -> None:
    section.get(*_FIELDS, "condition_value")
    for field in given:
        if section.body[field] is not True:
            section.ignored(field, f"a rule of type {kind} always holds; write handoff_type: condition")


def _condition(section: Section, condition_type: str, given: list[str], *, by_model: bool, names: Names) -> When:
    if condition_type not in {"", _EQUALS, *_EXPRESSION, *_MODEL}:
        section.get(*_FIELDS, "condition_value")
        message = f"{condition_type} is not known; use expression, context_equals or string_llm"
        section.error("wrong_value", "condition_type", message)
        return _BROKEN
    if condition_type == _EQUALS or (not condition_type and given == ["condition_key"]):
        return _equals(section, "condition_key", "condition_value")
    if not any(field in given for field in _TEXTS):
        section.error("missing_field", "condition", "a rule of type condition needs a condition")
        return _BROKEN
    texts = {place: text for place, value in _written(section, given) if (text := _text(section, place, value))}
    if not texts:
        return _BROKEN
    if condition_type in _MODEL:
        return _judged(section, texts, by_model=by_model)
    read = _without_words(texts, names)
    if condition_type or all(map(_is_expression, read.values())):
        return _expression(section, _reported(section, texts, read, names))
    _report_unknown_names(section, texts, names)
    return _judged(section, texts, by_model=by_model)  # as they are written: beside a judgement, words are one too


def _without_words(texts: Mapping[str, str], names: Names) -> dict[str, str]:
    """Expressions in the place of texts in words."""
    return {place: as_expression(text, names) or text for place, text in texts.items()}


def _reported(section: Section, texts: Mapping[str, str], read: dict[str, str], names: Names) -> dict[str, str]:
    for place, expression in read.items():
        if expression != texts[place]:
            message = f"is read as {expression}; write condition_type: string_llm if a model is to judge it"
            section.info("read_as_expression", place, message)
            for name, value, declared in misfits(texts[place], names):
                message = f"compares {name}, which is declared as {declared}, with {value[:100]!r}, which it never is"
                section.warning("wrong_type_of_value", place, f"{message}; correct the value, or the type")
    return read


def _report_unknown_names(section: Section, texts: Mapping[str, str], names: Names) -> None:
    """A comparison of a misspelt name would otherwise become a question to a model without a word."""
    for place, text in texts.items():
        for name in unknown_names(text, names):
            near = section.findings.near(name, names)
            advice = f"did you mean {near}?" if near else "declare it as a variable or an input"
            message = f"compares {name}, which is not declared, so that a model judges the text instead; {advice}"
            section.warning("undefined_variable", place, message)


def _equals(section: Section, key_field: str, value_field: str) -> When:
    key, value = section.required_text(key_field), section.get(value_field)
    if key and not _VARIABLE_NAME.fullmatch(key):
        section.error("wrong_value", key_field, "must be the name of a context variable: letters, digits, _")
    elif not _is_scalar(value):
        section.error("wrong_value", value_field, "must be text, a number up to 64 bits, true, false or null")
    elif key:
        return _expression(section, {value_field: f"${{{key}}} == {value!r}"})
    return _BROKEN


def _is_scalar(value: object) -> bool:
    if isinstance(value, int | float):  # false for infinity and NaN, which no expression can say
        return -_LARGEST_NUMBER <= value < _LARGEST_NUMBER
    return value is None or isinstance(value, str)


def _written(section: Section, given: list[str]) -> Iterator[tuple[str, object]]:
    """Every condition of the rule, by its place; all of them must hold."""
    for field in (field for field in _TEXTS if field in given):
        value = section.get(field)
        if field == "conditions" and isinstance(value, list):
            yield from ((f"conditions[{index}]", entry) for index, entry in enumerate(value))
        else:
            yield field, value


def _text(section: Section, place: str, value: object) -> str:
    if isinstance(value, bool):
        return str(value)
    if value is None or (isinstance(value, str) and not value.strip()):
        section.error("missing_field", place, "is empty; write a condition such as ${stage} == 'done', or leave it out")
    elif isinstance(value, str):
        return value
    else:
        section.error("wrong_type", place, "must be text such as ${stage} == 'done', or true or false")
    return ""


def _is_expression(text: str) -> bool:
    """Without a condition_type, what names a variable is an expression and everything else is for a model."""
    if "${" in text:
        return True
    if "context_variables." not in text and text.strip().lower() not in ("true", "false"):
        return False
    try:
        compile_condition(text)
    except ConditionError:
        return False
    return True


def _judged(section: Section, texts: dict[str, str], *, by_model: bool) -> When:
    place = next(iter(texts))
    if not by_model:
        message = (
            "is for a model to judge, which AG2's own network does not ask: here the agent's model is offered it as a"
            " tool; write an expression over context variables if that is not meant"
        )
        section.warning("judged_by_model", place, message)
    return When(judged=" and ".join(texts.values()))


def _expression(section: Section, texts: dict[str, str]) -> When:
    for place, text in texts.items():
        if not _compiles(section, place, text):
            return _BROKEN
    joined = next(iter(texts.values())) if len(texts) == 1 else " and ".join(f"({text})" for text in texts.values())
    if len(texts) > 1 and not _compiles(section, next(iter(texts)), joined):
        return _BROKEN
    return When(joined)


def _compiles(section: Section, place: str, text: str) -> bool:
    try:
        compile_condition(text)
    except ConditionError as error:
        is_untyped = place.startswith("condition") and section.body.get("condition_type") is None
        advice = "; write condition_type: string_llm if a model is to judge it" if is_untyped else ""
        section.error("bad_condition", place, f"{error}{advice}")
        return False
    return True
