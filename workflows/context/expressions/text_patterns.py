"""Patterns: authors' regular expressions, checked when read and bounded when run."""

import logging
import re
import warnings

# Only the parsed form shows what a pattern repeats, and no public module gives it.
from re import _constants as tokens  # type: ignore[attr-defined]  # -- missing in typeshed
from re import _parser as parser  # type: ignore[attr-defined]  # -- missing in typeshed
from typing import Any

import regex

log = logging.getLogger(__name__)

MATCH_TIMEOUT_S = 0.25
MAX_PATTERN_LENGTH = 1_000
MAX_MATCHED_LENGTH = 20_000  # a pattern is matched against at most this much of a text


class PatternError(ValueError):
    """Not a regular expression; the text gives the reason."""


def check_pattern(pattern: str) -> int:
    """Checks a pattern and returns its number of groups.

    It must be valid for `re`, which authors know, and for `regex`, which runs it."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise PatternError(f"is longer than {MAX_PATTERN_LENGTH} characters")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            re.compile(pattern, re.IGNORECASE)
            return int(regex.compile(pattern, regex.IGNORECASE).groups)
    except (re.error, regex.error, OverflowError, RecursionError, ValueError, IndexError) as error:
        raise PatternError(f"is not a regular expression: {error}") from None


def search_pattern(pattern: str, text: str) -> tuple[str, ...] | None:
    """Returns the groups of the first match, ignoring case; None without a match.

    All runs of a process share one loop, so a pattern that backtracks without end is cut off."""
    try:
        match = regex.search(pattern, text[:MAX_MATCHED_LENGTH], regex.IGNORECASE, timeout=MATCH_TIMEOUT_S)
    except TimeoutError:
        log.warning("pattern_timed_out", extra={"pattern": pattern[:100], "characters": len(text)})
        return None
    return None if match is None else tuple(group or "" for group in match.groups())


def is_exponential(pattern: str) -> bool:
    """Detects an endless repetition inside another, as in `(a+)+`: surely exponential."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            return _has_nested_repetition(parser.parse(pattern))
        except RecursionError:
            return False


def _has_nested_repetition(items: Any) -> bool:
    return any(_is_endless(item) and _is_only_endless(item[1][2]) for item in items) or any(
        _has_nested_repetition(inner) for item in items for inner in _inner_groups(item)
    )


def _is_only_endless(items: Any) -> bool:
    """Detects one endless repetition beside optional items: two readings of one text."""
    needed = [item for item in items if not _can_be_empty(item)]
    if len(needed) > 1:
        return False
    return any(
        _is_endless(item) or (item[0] is tokens.SUBPATTERN and _is_only_endless(item[1][3])) for item in needed or items
    )


def _is_endless(item: Any) -> bool:
    return item[0] in (tokens.MAX_REPEAT, tokens.MIN_REPEAT) and item[1][1] == tokens.MAXREPEAT


def _can_be_empty(item: Any) -> bool:
    kind, value = item
    if kind in (tokens.MAX_REPEAT, tokens.MIN_REPEAT):
        return value[0] == 0 or all(_can_be_empty(inner) for inner in value[2])
    if kind is tokens.SUBPATTERN:
        return all(_can_be_empty(inner) for inner in value[3])
    return kind in (tokens.AT, tokens.ASSERT, tokens.ASSERT_NOT)


def _inner_groups(item: Any) -> list[Any]:
    kind, value = item
    if kind in (tokens.MAX_REPEAT, tokens.MIN_REPEAT):
        return [value[2]]
    if kind is tokens.SUBPATTERN:
        return [value[3]]
    return list(value[1]) if kind is tokens.BRANCH else []
