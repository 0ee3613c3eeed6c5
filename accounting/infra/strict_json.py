"""Strict JSON: refuses NaN, Infinity and numbers beyond a double.

No other JSON reader would accept them.
"""

import json
import math
from typing import Any


def parse_strict_json(text: str | bytes) -> Any:
    """Parses JSON text, or bytes in any UTF encoding.

    Raises ValueError, or RecursionError for endless nesting.
    """
    if isinstance(text, bytes):
        text = text.decode(json.detect_encoding(text), "surrogatepass")
    return _DECODER.decode(text)


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is not JSON")


def _parse_finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text[:20]} is beyond the range of a double")
    return number


_DECODER = json.JSONDecoder(parse_constant=_refuse_constant, parse_float=_parse_finite)
