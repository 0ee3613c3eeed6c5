"""Reads templates for placeholders that no run can fill: they would be looked for as they stand."""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from workflows.context.queries import placeholders
from workflows.package.reading.section import Section

_BRACES = re.compile(r"\{\{[^{}]*\}\}|\$\{[^{}]*\}")


def check_placeholders(section: Section, field: str, template: Any) -> None:
    for text in dict.fromkeys(_not_understood(template)):
        message = (
            f"{text[:100]} is not filled, but taken as it stands; write {{{{name}}}} of a fact of the run, an input"
            " or a runtime variable"
        )
        section.warning("unknown_placeholder", field, message)


def _not_understood(template: Any) -> Iterator[str]:
    if isinstance(template, str):
        yield from (found[0] for found in _BRACES.finditer(template) if not placeholders(found[0]))
    elif isinstance(template, Mapping):
        for value in template.values():
            yield from _not_understood(value)
    elif isinstance(template, list):
        for value in template:
            yield from _not_understood(value)
