"""Reads the prompt of an agent: its sections in order, or the one text that older packages have."""

from collections.abc import Iterator, Mapping

from workflows.package.reading.section import Section

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


def read_prompt(section: Section) -> str:
    texts = [
        text
        for field in ("prompt_sections", "prompt_sections_custom")
        for place, entry in _ordered(section, field)
        if (text := _section_text(section, entry, place))
    ]
    system_message = section.text("system_message") or ""
    if texts and system_message.strip():
        message = "is not used, since prompt_sections are the prompt; keep one of them"
        section.warning("two_prompts", "system_message", message)
    return "\n\n".join(texts) or system_message


def _ordered(section: Section, field: str) -> Iterator[tuple[str, object]]:
    """Each section with its place. A mapping has a fixed order, whatever the order in the file."""
    raw = section.get(field)
    if isinstance(raw, list):
        yield from ((f"{field}[{index}]", entry) for index, entry in enumerate(raw))
    elif isinstance(raw, Mapping):
        known = [key for key in _SECTION_ORDER if key in raw]
        for key in [*known, *(key for key in raw if key not in _SECTION_ORDER)]:
            yield (f"{field}.{key}" if isinstance(key, str) else field), raw[key]
    elif raw is not None:
        section.error("wrong_type", field, "must be a list or a mapping of sections")


def _section_text(section: Section, entry: object, place: str) -> str:
    if entry is None or isinstance(entry, str):
        return entry or ""
    part = section.child(entry, place)
    part.get("id")
    heading, content = part.text("heading"), part.text("content")
    part.report_rest("is not part of the prompt; write heading and content")
    if content is None:
        return ""
    return f"{heading}\n{content}" if heading else content
