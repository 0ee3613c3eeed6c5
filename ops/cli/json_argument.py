"""JSON on the command line: as it stands there, or `@file`."""

import json
from pathlib import Path
from typing import Any


class JsonArgumentError(ValueError):
    """The text says what is wrong with it."""


def parse_json_object(text: str) -> dict[str, Any]:
    try:
        raw = Path(text[1:]).read_text(encoding="utf-8-sig") if text.startswith("@") else text
        value = json.loads(raw)
    except OSError as error:
        raise JsonArgumentError(f"{text[1:]} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise JsonArgumentError(f"{text[1:]} cannot be read: {error}; save it as UTF-8") from None
    except (ValueError, RecursionError) as error:  # also numbers of 5 000 digits, and endless nesting
        raise JsonArgumentError(f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise JsonArgumentError('must be a JSON object such as {"region": "eu"}')
    return value
