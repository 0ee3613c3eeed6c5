"""Problems of a trigger spec: place and message for its author."""

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from workflows.package.trigger_specs.spec_field_types import UNION_TAGS, SpecFieldError


@dataclass(frozen=True, slots=True)
class SpecProblem:
    place: str
    message: str
    is_unknown_field: bool = False


def list_problems(error: ValidationError) -> Sequence[SpecProblem]:
    found = error.errors(include_url=False, include_input=False)
    inside = {detail["loc"][:-1] for detail in found}
    # A list whose items are all invalid is also reported as too short: drop that.
    reported = [detail for detail in found if detail["type"] != "too_short" or detail["loc"] not in inside]
    return [
        SpecProblem(
            _problem_place(detail),
            _problem_message(detail),
            detail["type"] == "extra_forbidden" and len(detail["loc"]) == 1,
        )
        for detail in reported
    ]


def _problem_place(error: ErrorDetails) -> str:
    """Returns the place of a problem. A problem of several fields names its own."""
    parts = [part for part in error["loc"] if part not in UNION_TAGS]
    place = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in parts)
    cause = error.get("ctx", {}).get("error")
    return (f"{place}.{cause.field}" if isinstance(cause, SpecFieldError) else place).lstrip(".")


def _problem_message(error: ErrorDetails) -> str:
    """Replaces pydantic's messages; messages of our own validators stay."""
    context = error.get("ctx", {})
    messages = {
        "extra_forbidden": "is not a field of this trigger; check the spelling or remove it",
        "missing": f"is required; write {error['loc'][-1]}: …" if error["loc"] else "is required",
        "literal_error": f"must be {context.get('expected')}",
        "tuple_type": "must be a list",
        "dict_type": "must be a mapping",
        "model_type": "must be a mapping",
        "string_type": "must be text",
        **dict.fromkeys(("bool_type", "bool_parsing"), "must be true or false"),
        **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "must be a whole number"),
        "greater_than_equal": f"must be at least {context.get('ge')}",
        "less_than_equal": f"must be at most {context.get('le')}",
        "too_short": "is empty; give at least one",
        "too_long": f"has more than {context.get('max_length')}",
        "string_too_short": "is empty; write its name",
    }
    return messages.get(error["type"], error["msg"].removeprefix("Value error, "))
