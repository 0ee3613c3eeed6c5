"""Durations in package files: `15m`, `60s`, or a number of seconds."""

from workflows.package.readers.section import Section
from workflows.package.trigger_specs.spec_field_types import parse_duration


def read_duration_s(section: Section, *names: str, default: float, max_s: float | None = None) -> float:
    """Returns a duration above zero, or the default if it is absent or invalid."""
    value = section.get(*names)
    if value is None:
        return default
    try:
        seconds = parse_duration(value).total_seconds()
    except (ValueError, OverflowError) as error:
        section.error("wrong_value", names[0], str(error))
        return default
    if seconds <= 0 or (max_s is not None and seconds > max_s):
        limit = "" if max_s is None else f", at most {max_s:.0f}s"
        section.error("wrong_value", names[0], f"must be a duration above zero{limit}, such as 5s")
        return default
    return seconds
