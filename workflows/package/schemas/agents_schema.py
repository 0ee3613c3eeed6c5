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
        "agent_name": text("Alias of name"),
        "model": nullable_text("A model by its alias in the models file; default `default`"),
        "description": nullable_text("For readers, and for the manager of an AutoPattern"),
        "prompt_sections": ref("sections"),
        "prompt_sections_custom": ref("sections"),
        "system_message": nullable_text("The system prompt, if there are no sections"),
        "max_consecutive_auto_reply": whole(
            "Maximum of turns in a row; one more ends the chat. 0: it never speaks; default: no limit", minimum=0
        ),
        "auto_tool_mode": flag(
            "Its model is offered no tools; its auto_invoke tools are called with its structured reply"
        ),
        "structured_outputs_required": flag("It must have a model in structured_outputs, and replies with it"),
        "human_input_mode": nullable_text("NEVER is used for every value"),
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
    return {**either(wrapped, listed, named, description="The agents of the workflow"), "definitions": definitions}
