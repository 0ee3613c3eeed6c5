"""API field types: the validation and documentation of each kind of value."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WithJsonSchema,
    WrapValidator,
)
from pydantic.config import JsonDict

MAX_NAME = 200
_ONE_LINE = re.compile(r"[^\u0000-\u001f\u007f-\u009f\u2028\u2029]+")
_RFC_3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)", re.ASCII)


def _parse_moment(value: Any) -> datetime:
    """Parses RFC 3339 with an offset."""
    if isinstance(value, datetime):
        return value
    if isinstance(value, str) and _RFC_3339.fullmatch(value):
        try:
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
        except OverflowError:  # within a day of the first or last year
            return datetime.fromisoformat(value.upper()).replace(tzinfo=UTC)
        except ValueError:
            pass
    hint = "; a + in an address is written %2B" if isinstance(value, str) and " " in value else ""
    raise ValueError(f"must be a time with an offset, such as 2026-01-31T08:00:00Z{hint}")


def _integral_value(value: Any) -> Any:
    """Reads 5.0 as 5: JSON has one kind of number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _check_one_line(value: str) -> str:
    if not _ONE_LINE.fullmatch(value):
        raise ValueError("must be one line of plain text")
    return value


def with_error(message: str) -> WrapValidator:
    """Replaces any error about a value by one sentence.

    It is the last annotation, around all others.
    """

    def read(value: Any, check: ValidatorFunctionWrapHandler) -> Any:
        try:
            return check(value)
        except ValidationError:
            raise ValueError(message) from None

    return WrapValidator(read)


WHOLE = BeforeValidator(_integral_value)
LINE = AfterValidator(_check_one_line)
LINE_SCHEMA: JsonDict = {"pattern": f"^{_ONE_LINE.pattern}$"}
Moment = Annotated[
    datetime,
    BeforeValidator(_parse_moment),
    WithJsonSchema({"type": "string", "format": "date-time", "examples": ["2026-01-31T08:00:00Z"]}),
]
Ordinal = Annotated[int, Field(ge=1, le=10**9), WHOLE, with_error("must be a whole number such as 1, as it was read")]
Name = Annotated[str, Field(min_length=1, max_length=MAX_NAME, json_schema_extra=LINE_SCHEMA), LINE]
