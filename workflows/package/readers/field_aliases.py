"""Spelling: fields and speakers that authors call by several names."""

from workflows.package.normal_form.package_model import TERMINATE, USER
from workflows.package.readers.section import Section

_USER_WORDS = frozenset({USER, "user_proxy", "userproxy", "human", "reverttouser"})
_TERMINATE_WORDS = frozenset({TERMINATE, "end", "stop"})


def normalize_speaker(name: str) -> str:
    """The agent's name, or USER and TERMINATE for the words that mean a person and the end."""
    word = name.lower()
    if word in _USER_WORDS:
        return USER
    return TERMINATE if word in _TERMINATE_WORDS else name


def read_optional_name(section: Section, *names: str) -> str | None:
    """None where it is left out, or blank."""
    return (section.text(*names) or "").strip() or None


def used_field_name(section: Section, *names: str) -> str:
    """The name under which this section has the field, or the first: findings name what the author wrote."""
    return next((name for name in names if section.body.get(name) is not None), names[0])
