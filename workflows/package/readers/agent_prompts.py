"""The prompt of an agent: its sections, or the one text of older packages."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping
from types import UnionType
from typing import Any

from workflows.package.readers.section import Section

_SECTION_ORDER = (
    "role",
    "objective",
    "context",
    "runtime_integrations",
    "guidelines",
    "instructions",
    "examples",
    "json_output_compliance",
    "output_format",
)
_SECTIONS = ("prompt_sections", "prompt_sections_custom")
_PROMPT_WORDS = tuple(field.replace("_", "") for field in ("system_message", *_SECTIONS))
_FOREIGN_PROMPT_WORDS = frozenset({"system", "systemmsg", "sysmessage", "message", "messages"})
_MAX_COMPARED_FIELDS = 100  # per mapping; comparing names is slow


def read_prompt(section: Section) -> str:
    """Returns the prompt, or an empty text.

    Without a prompt, a misspelt prompt field is an error.
    """
    parts: list[Section] = []
    texts = [
        text
        for field in _SECTIONS
        for place, entry in _iter_ordered(section, field)
        if (text := _read_part(place, entry, parts, section))
    ]
    system_message = section.text("system_message") or ""
    if texts and system_message.strip():
        message = "is not used, since prompt_sections take precedence; keep one of them"
        section.warning("two_prompts", "system_message", message)
    prompt = "\n\n".join(texts) or system_message
    if not prompt.strip():
        _report_misspelt(section, parts)
    for part in parts:
        part.report_unread("is not part of the prompt; use heading and content")
    return prompt


def _report_misspelt(section: Section, parts: Iterable[Section]) -> None:
    for part in parts:
        for name in _find_unread_texts(part, str):
            _report_misspelt_field(part, name, "content")
    for name in _find_unread_texts(section, str | list | Mapping):
        if _looks_like_prompt(name):
            _report_misspelt_field(
                section, name, "system_message" if isinstance(section.body[name], str) else "prompt_sections"
            )


def _report_misspelt_field(section: Section, name: str, intended: str) -> None:
    section.get(name)  # marks it as read, so that it is not reported as not executed too
    section.error(
        "misspelt_prompt", name, f"is not a prompt field, and the agent has no prompt; did you mean {intended}?"
    )


def _find_unread_texts(section: Section, kind: type[Any] | UnionType) -> list[str]:
    unread = section.unread_fields()[:_MAX_COMPARED_FIELDS]
    return [name for name in unread if isinstance(name, str) and isinstance(section.body[name], kind)]


def _looks_like_prompt(name: str) -> bool:
    """Returns whether a name is similar to a prompt field.

    Includes its names in other frameworks.
    """
    word = re.sub(r"[^a-z]", "", name[:100].lower())
    if "prompt" in word or "instruction" in word or word in _FOREIGN_PROMPT_WORDS:
        return True
    return bool(difflib.get_close_matches(word, _PROMPT_WORDS, n=1, cutoff=0.75))


def _iter_ordered(section: Section, field: str) -> Iterator[tuple[str, object]]:
    """Yields each section with its place.

    Sections of a mapping come in a fixed order, not in file order.
    """
    raw = section.get(field)
    if isinstance(raw, list):
        yield from ((f"{field}[{index}]", entry) for index, entry in enumerate(raw))
    elif isinstance(raw, Mapping):
        known = [key for key in _SECTION_ORDER if key in raw]
        for key in [*known, *(key for key in raw if key not in _SECTION_ORDER)]:
            yield (f"{field}.{key}" if isinstance(key, str) else field), raw[key]
    elif raw is not None:
        section.error("wrong_type", field, "must be a list or a mapping of sections")


def _read_part(place: str, entry: object, parts: list[Section], section: Section) -> str:
    """Reads one section, and adds it to `parts` if it is a mapping."""
    if entry is None or isinstance(entry, str):
        return entry or ""
    part = section.child(entry, place)
    parts.append(part)
    part.get("id")
    heading, content = part.text("heading"), part.text("content")
    if content is None:
        return ""
    return f"{heading}\n{content}" if heading else content
