"""Form field values: reads and checks a value as its declared type."""

import math
import re
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any
from urllib.parse import urlsplit

from workers.setting_values import FALSE_WORDS, TRUE_WORDS
from workflows.context.values.value_sizes import MAX_INTEGER
from workflows.package.trigger_specs.form_spec import FormInput

_INTEGER = re.compile(r"[+-]?[0-9]{1,19}")
_NUMBER = re.compile(r"[+-]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:[eE][+-]?[0-9]{1,3})?")
_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_LABEL = r"[A-Za-z0-9](?:[A-Za-z0-9-]{0,61}[A-Za-z0-9])?"
_EMAIL_LOCAL = re.compile(r"[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+(?:\.[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]+)*")
_EMAIL_DOMAIN = re.compile(rf"{_LABEL}(?:\.{_LABEL})+")
_URI = re.compile(r"[!-~]+")  # printable ASCII without spaces: URIs percent-encode all else


class FormFieldError(ValueError):
    """A field does not take this value. The text is shown beside the field's name."""


def read_field(spec: FormInput, value: Any, *, from_text: bool) -> Any:
    """Reads one value.

    `from_text`: a form's body holds only text, where JSON has types.
    """
    read = _FROM_TEXT[spec.type] if from_text else _FROM_JSON[spec.type]
    result = read(value)
    if from_text and spec.multiline and isinstance(result, str):
        result = result.replace("\r\n", "\n")  # browsers send two characters for a newline that they count as one
    if isinstance(result, str):
        _check_text(spec, result)
    if spec.enum and not any(_is_same_choice(result, choice) for choice in spec.enum):
        raise FormFieldError(f"must be one of {', '.join(map(str, spec.enum))}")
    return result


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise FormFieldError("must be text")
    return value


def _integer(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise FormFieldError("must be a whole number")
    if not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
        raise FormFieldError("is beyond 64 bits")
    return value


def _number(value: Any) -> int | float:
    if isinstance(value, float):
        if not math.isfinite(value):
            raise FormFieldError("must be a finite number")
        return value
    if not isinstance(value, int) or isinstance(value, bool):
        raise FormFieldError("must be a number")
    return _integer(value)


def _boolean(value: Any) -> bool:
    if not isinstance(value, bool):
        raise FormFieldError("must be true or false")
    return value


def _integer_from_text(value: Any) -> int:
    text = _text(value).strip()
    if not _INTEGER.fullmatch(text):
        raise FormFieldError("must be a whole number")
    return _integer(int(text))


def _number_from_text(value: Any) -> int | float:
    text = _text(value).strip()
    if not _NUMBER.fullmatch(text):
        raise FormFieldError("must be a number")
    return int(text) if _INTEGER.fullmatch(text) and abs(int(text)) <= MAX_INTEGER else _number(float(text))


def _boolean_from_text(value: Any) -> bool:
    """Reads the known words for true and false; any other text is an error."""
    word = _text(value).strip().lower()
    if word in TRUE_WORDS:
        return True
    if word in FALSE_WORDS:
        return False
    raise FormFieldError("must be true or false")


_FROM_JSON: Mapping[str, Callable[[Any], Any]] = {
    "string": _text,
    "integer": _integer,
    "number": _number,
    "boolean": _boolean,
}
_FROM_TEXT: Mapping[str, Callable[[Any], Any]] = {
    "string": _text,
    "integer": _integer_from_text,
    "number": _number_from_text,
    "boolean": _boolean_from_text,
}


def _check_text(spec: FormInput, text: str) -> None:
    if len(text) > spec.max_length:
        raise FormFieldError(f"is longer than {spec.max_length} characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise FormFieldError("is not valid Unicode") from None
    if spec.format is not None:
        _FORMATS[spec.format](text)


def _check_email(text: str) -> None:
    local, _, domain = text.rpartition("@")
    fits = len(local) <= 64 and len(domain) <= 253
    if not (fits and _EMAIL_LOCAL.fullmatch(local) and _EMAIL_DOMAIN.fullmatch(domain)):
        raise FormFieldError("must be an email address, such as ada@example.com")


def _check_date(text: str) -> None:
    try:
        valid = _DATE.fullmatch(text) is not None and date.fromisoformat(text) is not None
    except ValueError:
        valid = False
    if not valid:
        raise FormFieldError("must be a date, such as 2026-03-29")


def _check_uri(text: str) -> None:
    """Accepts web addresses only: `javascript:` and `file:` are traps when shown."""
    try:
        parts = urlsplit(text)
        valid = _URI.fullmatch(text) is not None and parts.scheme in ("http", "https") and bool(parts.hostname)
        parts.port  # noqa: B018 -- raises ValueError for an invalid port
    except ValueError:
        valid = False
    if not valid:
        raise FormFieldError("must be a web address, such as https://example.com/page")


_FORMATS: Mapping[str, Callable[[str], None]] = {"email": _check_email, "date": _check_date, "uri": _check_uri}


def _is_same_choice(value: Any, choice: Any) -> bool:
    """Distinguishes True from 1, which Python does not."""
    return isinstance(value, bool) is isinstance(choice, bool) and bool(value == choice)
