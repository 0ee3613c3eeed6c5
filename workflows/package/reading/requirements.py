"""Reads what a package requires of the worker that runs it: names of environment variables."""

import re

from workflows.package.reading.section import Section

MAX_REQUIRED_NAMES = 100
MAX_ENVIRONMENT_NAME_CHARACTERS = 200  # characters
ENVIRONMENT_NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_ENVIRONMENT_NAME_CHARACTERS - 1}}}", re.ASCII)


def read_required_environment(section: Section) -> tuple[str, ...]:
    """An entry that is no name is never repeated: an author may have written the value."""
    if section.get("requires") is None:
        return ()
    requires = section.child(section.mapping("requires"), "requires")
    names: list[str] = []
    for index, each in enumerate(requires.sequence("env")[: MAX_REQUIRED_NAMES + 1]):
        place = f"env[{index}]"
        if index == MAX_REQUIRED_NAMES:
            requires.error("wrong_value", place, f"is one too many; a package may require {MAX_REQUIRED_NAMES} variables")
        elif isinstance(each, str) and ENVIRONMENT_NAME.fullmatch(each):
            names.append(each)
        else:
            message = "is not the name of an environment variable; write its name only, such as SLACK_WEBHOOK_URL"
            requires.error("wrong_value", place, message)
    requires.report_unread("cannot be required; write env: with the names of environment variables")
    return tuple(dict.fromkeys(names))
