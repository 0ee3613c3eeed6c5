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


def check_storable(value: Any, *, path: str = "input", depth: int = 0, any_key: bool = False) -> int:
    """Raises NotStorableError for what MongoDB would refuse; returns a rough size in bytes. `any_key`: also keys that
    a query or an update of somebody else could not name."""
    if depth > MAX_DEPTH:
        raise NotStorableError(f"{path} is nested deeper than {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool | float):
        return 8
    if isinstance(value, int):
        if not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
            raise NotStorableError(f"{path} is a number beyond 64 bits; send it as text")
        return 8
    size = _checked_size(value, path=path, depth=depth, any_key=any_key)
    if size > MAX_BYTES:
        raise NotStorableError(f"{path} is larger than {MAX_BYTES // 1024 // 1024} MB")
    return size


def _checked_size(value: Any, *, path: str, depth: int, any_key: bool) -> int:
    if isinstance(value, str):
        try:
            return len(value.encode("utf-8"))
        except UnicodeEncodeError:
            raise NotStorableError(f"{path} is text with a lone surrogate, which is not valid Unicode") from None
    if isinstance(value, Mapping):
        return sum(
            _checked_key(key, path=path, any_key=any_key)
            + check_storable(item, path=f"{path}.{key}", depth=depth + 1, any_key=any_key)
            for key, item in value.items()
        )
    if isinstance(value, list | tuple):
        return sum(
            8 + check_storable(item, path=f"{path}[{index}]", depth=depth + 1, any_key=any_key)
            for index, item in enumerate(value)
        )
    raise NotStorableError(f"{path} is a {type(value).__name__}, which is not JSON")


def _checked_key(key: Any, *, path: str, any_key: bool) -> int:
    if not isinstance(key, str) or "\x00" in key:
        raise NotStorableError(f"{path} has a key that is not plain text")
    # MongoDB would read such names as operators or paths in a later update or query.
    if not any_key and (key.startswith("$") or "." in key):
        raise NotStorableError(f"{path} has the key {key[:40]!r}; keys must not begin with $ or hold a dot")
    return _checked_size(key, path=path, depth=0, any_key=any_key)


def as_storable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Tools may put anything into a context: what cannot be stored is kept as text, and its name is logged. Names of
    files and addresses are keys like any other: a run that is resumed finds what it had."""
    stored = {storable_key(str(name)): _value_or_text(str(name), value) for name, value in values.items()}
    sizes = {name: check_storable(value, any_key=True) for name, value in stored.items()}
    if sum(sizes.values()) > MAX_CONTEXT_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise NotStorableError(
            f"the context is larger than {MAX_CONTEXT_BYTES // 1024 // 1024} MB; its largest variable is {largest}"
        )
    return stored


def storable_key(name: str) -> str:
    return name.replace("\x00", "%00").encode("utf-8", "replace").decode()


def _value_or_text(name: str, value: Any) -> Any:
    try:
        check_storable(value, path=name, any_key=True)
    except NotStorableError as error:
        log.warning("context_value_stored_as_text", extra={"variable": name, "reason": str(error)})
        return _as_text(value).encode("utf-8", "replace").decode()[:MAX_TEXT]
    return value


def _as_text(value: Any) -> str:
    try:
        return json.dumps(value, default=str)
    except (TypeError, ValueError, RecursionError):  # keys that are no text, cycles
        return repr(value)
