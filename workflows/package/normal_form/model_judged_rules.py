"""Judged rules: the variables that the text of a rule names which a model judges."""

import re
from collections.abc import Collection
from functools import lru_cache


def find_mentioned_names(text: str, names: Collection[str]) -> frozenset[str]:
    """Returns the names that a text contains as `${name}` or as a word, in any case."""
    if not names:
        return frozenset()
    words = _words(text)
    return frozenset(name for name in names if name.lower() in words)


@lru_cache(maxsize=4_096)
def _words(text: str) -> frozenset[str]:
    """Returns identifiers and the parts of dotted ones: `order.status` names order."""
    return frozenset(re.findall(r"[a-z_][\w-]*", text.lower())) | frozenset(re.findall(r"[a-z_]\w*", text.lower()))
