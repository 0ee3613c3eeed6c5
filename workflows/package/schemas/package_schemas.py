"""JSON Schemas of all files, for completion and validation in editors."""

from collections.abc import Callable, Mapping
from typing import Any

from pydantic import TypeAdapter

from workflows.models_file import models_file_schema
from workflows.operator_file import operator_file_schema
from workflows.package.schemas.agents_schema import agents_schema
from workflows.package.schemas.context_variables_schema import context_variables_schema
from workflows.package.schemas.orchestrator_schema import orchestrator_schema
from workflows.package.schemas.routing_schema import routing_schema
from workflows.package.schemas.schema_vocabulary import VERSION_FIELDS, Schema, items, mapping, names, ref, text, whole
from workflows.package.schemas.structured_outputs_schema import structured_outputs_schema
from workflows.package.schemas.tools_schema import hooks_schema, middleware_schema, tools_schema
from workflows.package.trigger_specs.trigger_spec import SPEC_BY_TYPE

DRAFT = "http://json-schema.org/draft-07/schema#"  # the draft with the best support in YAML editors


def task_batches_schema() -> Schema:
    entry = mapping(
        "A batch; not executed yet",
        {
            "id": text("Its name"),
            "trigger_agent": text("The agent after which it runs"),
            "decomposition_agent": text("The agent that writes the list of tasks"),
            "execution_agents": names("The agents that execute the tasks"),
            "concurrency": whole("Tasks at once"),
            "retry_limit": whole("Retries of a task", minimum=0),
            "timeout_seconds": whole("Timeout of a task in seconds"),
            "failure_policy": text("Effect of a failed task on the batch"),
            "require_owned_paths": {"type": ["boolean", "null"]},
        },
        required=["id"],
    )
    fields = {
        **VERSION_FIELDS,
        "version": {"type": ["integer", "string"]},
        **dict.fromkeys(("batches", "conveyors"), items(ref("batch"))),
    }
    return {**mapping("Batches of tasks for agents; not executed yet", fields), "definitions": {"batch": entry}}


def ui_config_schema() -> Schema:
    fields = {**VERSION_FIELDS, "visual_agents": {"type": ["array", "null"], "description": "Not read"}}
    return mapping("A user interface, which does not exist here; not read", fields)


def triggers_schema() -> Schema:
    """Builds the schema from the specs themselves, so both always agree."""
    definitions: dict[str, Any] = {}
    variants = []
    for spec in dict.fromkeys(SPEC_BY_TYPE.values()):
        schema: Schema = TypeAdapter(spec).json_schema(ref_template="#/definitions/{model}")
        definitions |= schema.pop("$defs", {})
        schema["properties"]["type"] = {"enum": [alias for alias, known in SPEC_BY_TYPE.items() if known is spec]}
        # `name` is optional: the loader computes its default, `<type>-<index>`.
        schema["required"] = ["type", *(name for name in schema.get("required", ()) if name not in ("type", "name"))]
        definitions[spec.__name__] = schema
        variants.append({"$ref": f"#/definitions/{spec.__name__}"})
    entries = {"type": ["array", "null"], "items": {"anyOf": variants}}
    wrapped = {"type": "object", "properties": {"triggers": entries}}
    return {"description": "The triggers that start runs", "anyOf": [wrapped, entries], "definitions": definitions}


_SCHEMAS: Mapping[str, Callable[[], Schema]] = {
    "orchestrator": orchestrator_schema,
    "agents": agents_schema,
    "context_variables": context_variables_schema,
    "handoffs": routing_schema,
    "transition_graph": routing_schema,
    "tools": tools_schema,
    "structured_outputs": structured_outputs_schema,
    "hooks": hooks_schema,
    "middleware": middleware_schema,
    "triggers": triggers_schema,
    "task_batches": task_batches_schema,
    "ui_config": ui_config_schema,
    "models": models_file_schema,
    "unattended": operator_file_schema,
}
SCHEMA_NAMES = tuple(_SCHEMAS)


def build_schema(name: str) -> Schema:
    return {"$schema": DRAFT, "title": f"Unattended: {name}", **_SCHEMAS[name]()}
