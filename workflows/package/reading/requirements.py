"""Reads what a package requires of the worker that runs it: names of environment variables."""

import re

from workflows.package.reading.section import Section

MAX_NAMES = 100
MAX_NAME = 200  # characters
NAME = re.compile(rf"[A-Za-z_][A-Za-z0-9_]{{0,{MAX_NAME - 1}}}", re.ASCII)


def read_required_environment(section: Section) -> tuple[str, ...]:
    """An entry that is no name is never repeated: an author may have written the value."""
    if section.get("requires") is None:
        return ()
    requires = section.child(section.mapping("requires"), "requires")
    names: list[str] = []
    for index, each in enumerate(requires.sequence("env")[: MAX_NAMES + 1]):
        place = f"env[{index}]"
        if index == MAX_NAMES:
            requires.error("wrong_value", place, f"is one too many; a package may require {MAX_NAMES} variables")
        elif isinstance(each, str) and NAME.fullmatch(each):
            names.append(each)
        else:
            message = "is not the name of an environment variable; write its name only, such as SLACK_WEBHOOK_URL"
            requires.error("wrong_value", place, message)
    requires.report_rest("cannot be required; write env: with the names of environment variables")
    return tuple(dict.fromkeys(names))
