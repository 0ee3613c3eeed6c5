"""Parsers of the options in the broker URL.

Their errors say what the value must be, and never quote it.
"""

from collections.abc import Callable


def parse_whole_number(raw: str) -> int:
    if not (raw.isascii() and raw.isdigit() and len(raw) <= 9 and int(raw) >= 1):
        raise ValueError("a whole number of at least 1")
    return int(raw)


def parse_seconds(raw: str) -> float:
    try:
        number = float(raw)
    except ValueError:
        number = 0.0
    if not 0 < number <= 3600:
        raise ValueError("a number of seconds, at most 3600")
    return number


def parse_text(raw: str) -> str:
    if not raw:
        raise ValueError("text that is not empty; leave the option out instead")
    return raw


def parse_bool(raw: str) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if raw.lower() not in words:
        raise ValueError("true or false")
    return words[raw.lower()]


def one_of_words(*words: str) -> Callable[[str], str]:
    def parse(raw: str) -> str:
        if raw not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return raw

    return parse
