"""Storable values: what can stand in a run document, checked where data enters."""

import json
import logging
from collections.abc import Mapping
from typing import Any

log = logging.getLogger(__name__)

MAX_TEXT = 100_000
MAX_CONTEXT_BYTES = 6 * 1024 * 1024
MAX_DEPTH = 60  # MongoDB refuses documents nested deeper than 100; a run adds levels of its own
MAX_INTEGER = 2**63 - 1
MAX_BYTES = 4 * 1024 * 1024  # a run document may have 16 MB, and context and outcome need room too


class NotStorableError(ValueError):
    """Data that cannot be kept; the text names the place."""


def check_storable(value: Any, *, path: str = "input", depth: int = 0) -> int:
    """Raises NotStorableError for what MongoDB would refuse; returns a rough size in bytes."""
    if depth > MAX_DEPTH:
        raise NotStorableError(f"{path} is nested deeper than {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool | float):
        return 8
    if isinstance(value, int):
        if not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
            raise NotStorableError(f"{path} is a number beyond 64 bits; send it as text")
        return 8
    size = _checked_size(value, path=path, depth=depth)
    if size > MAX_BYTES:
        raise NotStorableError(f"{path} is larger than {MAX_BYTES // 1024 // 1024} MB")
    return size


def _checked_size(value: Any, *, path: str, depth: int) -> int:
    if isinstance(value, str):
        try:
            return len(value.encode("utf-8"))
        except UnicodeEncodeError:
            raise NotStorableError(f"{path} is text with a lone surrogate, which is not valid Unicode") from None
    if isinstance(value, Mapping):
        return sum(
            _checked_key(key, path=path) + check_storable(item, path=f"{path}.{key}", depth=depth + 1)
            for key, item in value.items()
        )
    if isinstance(value, list | tuple):
        return sum(
            8 + check_storable(item, path=f"{path}[{index}]", depth=depth + 1) for index, item in enumerate(value)
        )
    raise NotStorableError(f"{path} is a {type(value).__name__}, which is not JSON")


def _checked_key(key: Any, *, path: str) -> int:
    if not isinstance(key, str) or "\x00" in key:
        raise NotStorableError(f"{path} has a key that is not plain text")
    # MongoDB would read such names as operators or paths in a later update or query.
    if key.startswith("$") or "." in key:
        raise NotStorableError(f"{path} has the key {key[:40]!r}; keys must not begin with $ or hold a dot")
    return _checked_size(key, path=path, depth=0)


def as_storable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tools may put anything into a context: what cannot be stored is kept as text, and its name is logged."""
    stored = {storable_key(str(name)): _value_or_text(str(name), value) for name, value in values.items()}
    sizes = {name: check_storable(value) for name, value in stored.items()}
    if sum(sizes.values()) > MAX_CONTEXT_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise NotStorableError(
            f"the context is larger than {MAX_CONTEXT_BYTES // 1024 // 1024} MB; its largest variable is {largest}"
        )
    return stored


def storable_key(name: str) -> str:
    """Percent-encoded where MongoDB would read an operator or a path: two names never become one."""
    encoded = name.replace("\x00", "%00").replace(".", "%2E").replace("$", "%24")
    return encoded.encode("utf-8", "replace").decode()


def _value_or_text(name: str, value: Any) -> Any:
    try:
        check_storable(value, path=name)
    except NotStorableError as error:
        log.warning("context_value_stored_as_text", extra={"variable": name, "reason": str(error)})
        return _as_text(value).encode("utf-8", "replace").decode()[:MAX_TEXT]
    return value


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, cycles
        return repr(value)
