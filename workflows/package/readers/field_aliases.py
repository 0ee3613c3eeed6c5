"""Aliases of fields and speakers."""

from workflows.package.normal_form.package_model import TERMINATE, USER
from workflows.package.readers.section import Section

_USER_WORDS = frozenset({USER, "user_proxy", "userproxy", "human", "reverttouser"})
_TERMINATE_WORDS = frozenset({TERMINATE, "end", "stop"})


def normalize_speaker(name: str) -> str:
    """Returns USER or TERMINATE for their aliases, else the name itself."""
    word = name.lower()
    if word in _USER_WORDS:
        return USER
    return TERMINATE if word in _TERMINATE_WORDS else name


def read_optional_name(section: Section, *names: str) -> str | None:
    """Returns a name; None if it is absent or blank."""
    return (section.text(*names) or "").strip() or None


def used_field_name(section: Section, *names: str) -> str:
    """Returns the alias that the author used, else the first.

    So findings name the right field.
    """
    return next((name for name in names if section.body.get(name) is not None), names[0])
