"""The `match` of a trigger that waits for an answer.

Forms: `{equals: …}`, `{in: [...]}` or `{any: true}`.
"""

from typing import Any

from workflows.context.state.answer_match import AnswerMatch
from workflows.package.readers.section import Section

MATCH_FIELDS = ("equals", "in", "any")


class BadMatchError(ValueError):
    """An invalid match; the finding has the reason."""


def read_answer_match(trigger: Section) -> AnswerMatch | None:
    """Returns the match; None if it is absent or all of its fields are null.

    Only `equals: null` alone waits for null.
    """
    section = trigger.child(trigger.get("match") or {}, "match")
    section.get(*MATCH_FIELDS)
    section.report_unread()
    fields = [name for name in MATCH_FIELDS if section.body.get(name) is not None]
    if not fields and (len(section.body) != 1 or "equals" not in section.body):
        if all(value is None for value in section.body.values()):
            return None
    elif len(fields) <= 1:
        return _read_match(section, fields[0] if fields else "equals")
    raise _report_error(section, "", "give exactly one of equals: …, in: [...], any: true")


def _read_match(section: Section, field: str) -> AnswerMatch:
    value = section.body[field]
    if field == "equals":
        return AnswerMatch((value,))
    if field == "in":
        return AnswerMatch(tuple(_read_answers(section, value)))
    if value is not True:
        raise _report_error(section, "any", "must be true; remove the match otherwise")
    return AnswerMatch()


def _read_answers(section: Section, value: Any) -> list[Any]:
    if isinstance(value, list) and value:
        return value
    raise _report_error(section, "in", "must be a list of answers, such as [yes, ok]")


def _report_error(section: Section, field: str, message: str) -> BadMatchError:
    section.error("wrong_value", field, message)
    return BadMatchError(message)
