"""The schema of the structured_outputs file."""

from workflows.package.schemas.schema_vocabulary import (
    VERSION_FIELDS,
    Schema,
    by_name,
    either,
    flag,
    items,
    mapping,
    names,
    nullable_text,
    ref,
    text,
)

_TYPE_HELP = "str, int, float, bool, dict, list, literal, union, optional_str, optional_list …, or the name of a model"


def _field_schema() -> Schema:
    return mapping(
        "A field of a model",
        {
            "type": text(_TYPE_HELP),
            "description": nullable_text("Description for the model"),
            "default": {},
            "required": flag("false: null is allowed"),
            "items": either({"type": ["string", "null"]}, ref("field"), description="Of a list"),
            "values": {"type": ["array", "null"], "description": "Of a literal"},
            "allowed_values": {"type": ["array", "null"], "description": "Of a str: as a literal"},
            "enum": {"type": ["array", "null"], "description": "Of a str: as a literal"},
            "variants": items(either({"type": ["string", "null"]}, ref("field"))),
            "fields": by_name(ref("field")),
        },
        required=["type"],
    )


def _model_schema() -> Schema:
    return mapping(
        "A model, or a name for a literal or a union",
        {
            "name": text("Of an entry of a list"),
            "type": {"enum": ["model", "literal", "union"]},
            "description": nullable_text("Description for the model"),
            "fields": by_name(ref("field")),
            "required": names("The required fields; the others may be null"),
            "values": {"type": ["array", "null"], "description": "Of a literal"},
            "variants": items(either({"type": ["string", "null"]}, ref("field"))),
        },
    )


def structured_outputs_schema() -> Schema:
    entry = mapping("An entry", {"agent": text("An agent"), "model": nullable_text("A model")})
    models = either(by_name(ref("model")), items(ref("model")), description="By name, or a list of models with a name")
    registry = either(
        by_name({"type": ["string", "null"]}),
        items(entry),
        description="The model of each agent's replies; after an invalid reply the agent is asked once more",
    )
    fields = {**VERSION_FIELDS, "models": models, "registry": registry}
    wrapped = {"type": ["object", "null"], "properties": fields, "description": "The same content, wrapped"}
    body = mapping("The models of agents' replies", {**fields, "structured_outputs": wrapped})
    return {**body, "definitions": {"field": _field_schema(), "model": _model_schema()}}
