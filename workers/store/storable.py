"""Storable values: checks that data fits into a run document, where it enters."""

from collections.abc import Mapping
from typing import Any

from workflows.context.values.storable_values import MAX_BYTES, plain_context
from workflows.context.values.value_sizes import MAX_DEPTH, MAX_INTEGER, estimate_bytes

_UNFIT_IN_KEYS = frozenset("$.\x00")  # `_check` allows some of these keys
MAX_CONTEXT_BYTES = 6 * 1024 * 1024


class NotStorableError(ValueError):
    """Data that cannot be stored; the text names the place."""


def check_storable(value: Any, *, path: str = "input", any_key: bool = False) -> int:
    """Raises NotStorableError for values that MongoDB would refuse; returns a rough size in bytes.

    `any_key`: allows keys that queries and updates of users could not name.
    """
    size = estimate_bytes(value, max_bytes=MAX_BYTES, unfit_in_keys=_UNFIT_IN_KEYS)
    if size <= MAX_BYTES:
        return int(size)
    return _check(value, path=path, depth=0, any_key=any_key)


def _check(value: Any, *, path: str, depth: int, any_key: bool) -> int:
    if depth > MAX_DEPTH:
        raise NotStorableError(f"{path} is nested deeper than {MAX_DEPTH} levels")
    if value is None or isinstance(value, bool | float):
        return 8
    if isinstance(value, int):
        if not -MAX_INTEGER - 1 <= value <= MAX_INTEGER:
            raise NotStorableError(f"{path} is a number beyond 64 bits; send it as text")
        return 8
    size = _measure(value, path=path, depth=depth, any_key=any_key)
    if size > MAX_BYTES:
        raise NotStorableError(f"{path} is larger than {MAX_BYTES // 1024 // 1024} MB")
    return size


def _measure(value: Any, *, path: str, depth: int, any_key: bool) -> int:
    if isinstance(value, str):
        try:
            return len(value.encode("utf-8"))
        except UnicodeEncodeError:
            raise NotStorableError(f"{path} is text with a lone surrogate, which is not valid Unicode") from None
    if isinstance(value, Mapping):
        return sum(
            _measure_key(key, path=path, any_key=any_key)
            + _check(item, path=f"{path}.{key}", depth=depth + 1, any_key=any_key)
            for key, item in value.items()
        )
    if isinstance(value, list | tuple):
        return sum(
            8 + _check(item, path=f"{path}[{index}]", depth=depth + 1, any_key=any_key)
            for index, item in enumerate(value)
        )
    raise NotStorableError(f"{path} is a {type(value).__name__}, which is not JSON")


def _measure_key(key: Any, *, path: str, any_key: bool) -> int:
    if not isinstance(key, str) or "\x00" in key:
        raise NotStorableError(f"{path} has a key that is not plain text")
    # MongoDB would read such names as operators or paths in later updates and queries.
    if not any_key and (key.startswith("$") or "." in key):
        raise NotStorableError(f"{path} has the key {key[:40]!r}; keys must not begin with $ or hold a dot")
    return _measure(key, path=path, depth=0, any_key=any_key)


def as_storable(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the data of tools in a context, up to the size of a run document.

    File names and addresses are valid keys: a resumed run finds the same values.
    """
    stored = plain_context(values.items())
    sizes = {name: estimate_bytes(value, max_bytes=MAX_BYTES) for name, value in stored.items()}
    if sum(sizes.values()) > MAX_CONTEXT_BYTES:
        largest = max(sizes, key=lambda name: sizes[name])
        raise NotStorableError(
            f"the context is larger than {MAX_CONTEXT_BYTES // 1024 // 1024} MB; its largest variable is {largest}"
        )
    return stored
