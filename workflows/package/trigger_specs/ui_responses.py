"""UI responses: answers of a trigger to tools that ask a person."""

from collections.abc import Mapping
from typing import Annotated, Any, NotRequired

from pydantic import AfterValidator, BeforeValidator, ConfigDict, Discriminator, Field, Tag
from typing_extensions import TypedDict  # pydantic rejects typing.TypedDict before Python 3.12

from workflows.context.state.standing_answers import CONDITION_ROOTS
from workflows.package.readers.jmespath_fields import WHOLE_INPUT, referenced_names
from workflows.package.trigger_specs.spec_field_types import UNION_TAGS, Expression

_LIST_TAG, _KEYS_TAG = UNION_TAGS
MAX_ANSWERS = 100  # per tool; their conditions are evaluated when the tool asks
ANSWER_FORMS_HINT = 'write keys and values, or a list of {when: "expression", answer: {…}}'


def _check_literal(answers: Any) -> Any:
    """Rejects expressions: answers are fixed before any event exists."""
    if isinstance(answers, dict | list):
        for item in answers.values() if isinstance(answers, dict) else answers:
            _check_literal(item)
    elif isinstance(answers, str) and answers.startswith("="):
        raise ValueError("answers are literal values; remove the = at the beginning")
    return answers


def _check_roots(condition: str) -> str:
    """Rejects names that a condition cannot see.

    They are null, so `!other` would hold in every call.
    """
    unknown = sorted(referenced_names(condition) - {*CONDITION_ROOTS, WHOLE_INPUT})
    if unknown:
        raise ValueError(f"uses {unknown[0]}; available are {', '.join(CONDITION_ROOTS)}: write arguments.{unknown[0]}")
    return condition


class ConditionalAnswer(TypedDict):
    __pydantic_config__ = ConfigDict(extra="forbid")  # type: ignore[misc]  # how pydantic configures a TypedDict

    when: NotRequired[
        Annotated[
            Expression,
            AfterValidator(_check_roots),
            Field(description="JMESPath over {arguments, payload, context}; absent: in every call"),
        ]
    ]
    answer: Annotated[dict[str, Any], AfterValidator(_check_literal)]


def _check_form(value: object) -> object:
    if not isinstance(value, Mapping | list | tuple):
        raise ValueError(ANSWER_FORMS_HINT)
    return value


def _discriminate_answers(value: object) -> str:
    return _LIST_TAG if isinstance(value, list | tuple) else _KEYS_TAG


Answers = Annotated[
    Annotated[list[ConditionalAnswer], Field(min_length=1, max_length=MAX_ANSWERS), Tag(_LIST_TAG)]
    | Annotated[dict[str, Any], AfterValidator(_check_literal), Tag(_KEYS_TAG)],
    Discriminator(_discriminate_answers),
    BeforeValidator(_check_form),
]
UIResponses = dict[str, Answers]


def guaranteed_keys(answers: Any) -> frozenset[str]:
    """Returns the keys that every call gets.

    Of a list these are the keys in all answers, if one answer is unconditional.
    """
    if isinstance(answers, Mapping):
        return frozenset(answers)
    if not any("when" not in answer for answer in answers):
        return frozenset()
    used = answers[: find_first_unconditional(answers) + 1]
    return frozenset.intersection(*(frozenset(answer["answer"]) for answer in used))


def find_first_unconditional(answers: list[ConditionalAnswer]) -> int:
    """Returns the index of the first answer without a condition, else the length.

    Later answers are unused.
    """
    return next((index for index, answer in enumerate(answers) if "when" not in answer), len(answers))
