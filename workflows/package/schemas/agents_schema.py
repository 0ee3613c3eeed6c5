"""The schema of the agents file."""

from workflows.package.schemas.schema_vocabulary import (
    VERSION_FIELDS,
    Schema,
    by_name,
    either,
    flag,
    items,
    mapping,
    nullable_text,
    read_only_fields,
    ref,
    text,
    whole,
)

_SECTION_SCHEMA = either(
    {"type": ["string", "null"]},
    mapping(
        "A part of the system prompt",
        {
            "id": text("Name of the part"),
            "heading": nullable_text("Its first line, such as [ROLE]"),
            "content": nullable_text("Its text; null leaves the part out"),
        },
    ),
)
_SECTIONS_SCHEMA = either(
    items(ref("section")),
    by_name(ref("section")),
    description="The system prompt in parts: a list in its order, or a mapping from role to output_format",
)
_AGENT_SCHEMA = mapping(
    "An agent",
    {
        "name": text("The agent's name in rules and tools"),
        "agent_name": text("Another name of name"),
        "model": nullable_text("An alias of the models file; default `default`"),
        "description": nullable_text("What it is for"),
        "prompt_sections": ref("sections"),
        "prompt_sections_custom": ref("sections"),
        "system_message": nullable_text("The system prompt, where there are no sections"),
        "max_consecutive_auto_reply": whole(
            "Turns in a row; one more ends the chat. 0: it never speaks; default: no limit", minimum=0
        ),
        "auto_tool_mode": flag(
            "It is offered no tools: its auto_invoke tools are called with what its structured reply says"
        ),
        "structured_outputs_required": flag("It answers with its model of structured_outputs"),
        "human_input_mode": nullable_text("NEVER is used, whatever is written"),
        **read_only_fields("llm_config_type"),
    },
)


def agents_schema() -> Schema:
    listed, named = items(ref("agent")), by_name(ref("agent"))
    wrapped = {
        "type": "object",
        "properties": {**VERSION_FIELDS, "agents": either(listed, named)},
        "required": ["agents"],
    }
    definitions = {"section": _SECTION_SCHEMA, "sections": _SECTIONS_SCHEMA, "agent": _AGENT_SCHEMA}
    return {**either(wrapped, listed, named, description="Who speaks"), "definitions": definitions}
