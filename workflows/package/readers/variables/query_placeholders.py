"""Placeholders in templates that no run can fill.

They would be sent as they are written.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from workflows.context.documents.query_templates import PLACEHOLDER, QueryError, fill_query, find_placeholders
from workflows.package.readers.section import Section

_BRACES = re.compile(r"\{\{[^{}]*\}\}|\$\{[^{}]*\}")


def check_placeholders(section: Section, field: str, template: Any) -> None:
    for text in dict.fromkeys(_find_unknown_placeholders(template)):
        message = (
            f"{text[:100]} is not a placeholder and is sent as written; write {{{{name}}}} with a fact of the run, an"
            " input or a runtime variable"
        )
        section.warning("unknown_placeholder", field, message)


def _find_unknown_placeholders(template: Any) -> Iterator[str]:
    for text in _iter_texts(template):
        yield from (found[0] for found in _BRACES.finditer(text) if not find_placeholders(found[0]))


def find_unfillable_reason(query: Mapping[str, Any]) -> str | None:
    """Returns why no run can fill this query, whatever its values are.

    Returns None if runs can.
    """
    facts: dict[str, Any] = {}
    for text in _iter_texts(query):
        for match in PLACEHOLDER.finditer(text):
            *mappings, name = (match[1] or match[2]).split(".")
            inner = facts
            for mapping in mappings:
                known = inner.setdefault(mapping, {})
                inner = known if isinstance(known, dict) else {}
            inner.setdefault(name, "any value")
    try:
        fill_query(query, facts)
    except QueryError as error:
        return str(error)
    return None


def _iter_texts(template: Any) -> Iterator[str]:
    if isinstance(template, str):
        yield template
    elif isinstance(template, Mapping | list):
        for value in template.values() if isinstance(template, Mapping) else template:
            yield from _iter_texts(value)
