"""The schema of the context_variables file."""

from typing import get_args

from workflows.context.values.value_types import TYPE_NAMES
from workflows.package.normal_form.variable_sources import PersistKey
from workflows.package.readers.tools.lifecycle_tools_reader import MOMENTS
from workflows.package.schemas.schema_vocabulary import (
    ANY_VALUE,
    VERSION_FIELDS,
    Schema,
    by_name,
    either,
    flag,
    items,
    mapping,
    names,
    nullable_text,
    one_of,
    read_only_fields,
    ref,
    text,
    whole,
)

_SOURCE_TYPES = (
    *("environment", "config", "database", "data_reference", "data_entity", "static", "derived", "state"),
    *("computed", "runtime", "build_context", "external", "file"),
)
_TRIGGER_TYPES = ("agent_text", "user_text", "ui_response", "agent_turn_count", "tool_response", "timer_expired")
_EVENT_TYPES = ("tool_call", "handoff", "lifecycle")
_REFERENCE = text("env:NAME or file:PATH, never the secret itself", pattern="^(env|file):.+")


def _trigger_schema() -> Schema:
    match = {
        "equals": {"description": "The whole reply or answer, without surrounding blanks"},
        "contains": text("A part of the reply"),
        "regex": text("A pattern that occurs in the reply", format="regex"),
        "in": {"type": "array", "minItems": 1, "description": "The answers that fire it"},
        "any": {"enum": [True], "description": "Fires on any answer"},
    }
    return mapping(
        "An event that sets the variable",
        {
            "type": {"enum": [*_TRIGGER_TYPES, *_EVENT_TYPES], "description": "The event"},
            "agent": nullable_text("The agent whose replies, turns, calls or moments count"),
            "event": one_of(tuple(MOMENTS), "Of lifecycle: fires after the steps of this moment"),
            "from": {
                "description": "Of handoff: the agent that hands over, or user; of other types: required current value"
            },
            "to": {"description": "Of handoff: the next agent, user or terminate; of other types: the new value"},
            "source_agent": nullable_text("Alias of from, of handoff"),
            "target_agent": nullable_text("Alias of to, of handoff"),
            "value": {"description": "The new value, if to is not the value"},
            "match": mapping(
                "Exactly one: for a reply equals, contains or regex, for an answer equals, in or any. Ignores case",
                match,
                minProperties=1,
                maxProperties=1,
            ),
            "tool": text("The tool whose call, answer or result counts"),
            "response_key": text("The key in the answer that holds the new value"),
            **{name: whole("Fires at this number of turns") for name in ("count", "turns", "n")},
            "status": one_of(("success", "error", "any"), "Result of the tool; default success"),
            "after": {
                "type": ["string", "number"],
                "description": "Working time of the run until it fires, such as 10m",
            },
            **read_only_fields("ui_hidden"),
        },
        required=["type"],
    )


def _transition_schema() -> Schema:
    return mapping(
        "A change of state",
        {
            "from": {"description": "Fires only while the variable has this value"},
            "to": {"description": "The new value; default: the value of the trigger; $1: a group of its pattern"},
            "trigger": ref("trigger"),
        },
        required=["trigger"],
    )


def _place_fields() -> dict[str, Schema]:
    return {
        "database_name": text("The database"),
        "database": text("Alias of database_name"),
        "collection": text("The collection"),
        "search_by": text("The field that must equal the run's value of the same name"),
        "write_strategy": one_of(
            ("immediate", "on_success"),
            "When the value is written: with each turn that changes it, or when the run succeeds",
        ),
    }


def _authorization_schema() -> Schema:
    schemes = one_of(("bearer", "basic", "header", "api_key"), "Default bearer")
    fields = {
        "type": schemes,
        "scheme": schemes,
        "secret": _REFERENCE,
        "header": text("Header name, for the schemes header and api_key"),
    }
    return either(_REFERENCE, mapping("A scheme and a secret", fields, required=["secret"]))


def _external_fields() -> dict[str, Schema]:
    seconds = {"type": ["string", "number", "null"], "description": "Such as 5s; limits all attempts together"}
    return {
        "url": text("http or https; placeholders only in path and query", pattern="^https?://"),
        "method": {"enum": ["GET", "get", None]},
        "service": nullable_text("For readers"),
        "operation": nullable_text("For readers"),
        "headers": by_name({"type": "string"}),
        "auth": _authorization_schema(),
        "timeout": seconds,
        "retry": {"type": ["integer", "object", "null"], "description": "A number of attempts, or {attempts: 3}"},
        "cache": {"type": ["string", "number", "object", "null"], "description": "A duration, or {ttl: 60s}"},
        "select": nullable_text("A JMESPath expression over the response"),
    }


def _computed_fields() -> dict[str, Schema]:
    persist = mapping(
        "The document that the value is written to", {**_place_fields(), "field": text("The field to set")}
    )
    return {
        "computation": nullable_text("A JMESPath expression over the inputs"),
        "inputs": either(
            names("Variables"), by_name({"type": "string"}), description="Variables that the computation sees"
        ),
        "persist_to": either({"type": ["string", "null"]}, persist, description="An entity variable, or a document"),
    }


def _source_schema() -> Schema:
    query = {"type": ["object", "null"], "description": "With placeholders such as {{runtime.app_id}}"}
    return mapping(
        "The source of the value; docs/package-format.md lists the fields of each type",
        {
            "type": {"enum": list(_SOURCE_TYPES)},
            "default": {"description": "The value if there is no other"},
            **{name: {"description": "Alias of default"} for name in ("default_value", "initial")},
            "value": {"description": "The constant of a static variable"},
            "required": flag("Without a value the run fails before any model call"),
            "env_var": text("The environment variable; always absent in production"),
            **_place_fields(),
            **dict.fromkeys(("query_template", "query"), query),
            "db_type": {"enum": ["mongodb", None]},
            "field": text("The field to read"),
            "fields": names("The fields to read; one field gives its value, several a mapping"),
            "schema": {"type": ["object", "null"], "description": "Fields of the document, or a JSON Schema"},
            **_computed_fields(),
            **_external_fields(),
            "triggers": items(ref("trigger")),
            "transitions": items(ref("transition")),
            "trigger": either(ref("trigger"), {"type": "null"}),
            "path": text("A file of the package"),
            "format": one_of(("json", "yaml", "text"), "Default: from the file's suffix"),
            "encoding": text("Default utf-8"),
            "refresh_strategy": text(
                "once (default), or per_turn: read again before each turn of an agent that sees it"
            ),
            "persist": flag("Of a state: the next run begins with the value of the last successful run"),
            "persist_key": one_of(
                get_args(PersistKey), "Owner of the persisted value; default none: one value for the whole app"
            ),
        },
        required=["type"],
    )


def _definition_schema() -> Schema:
    early = ("default", "default_value", "value", "database", "enum")
    return mapping(
        "A context variable",
        {
            "name": text("The name, if the entry is in a list"),
            "type": one_of(TYPE_NAMES, "Default string"),
            "description": nullable_text("For readers"),
            "source": ref("source"),
            "triggers": items(ref("trigger")),
            **dict.fromkeys(early, ANY_VALUE),
            **read_only_fields("authority_class", "writer_ids", "persisted", "model_visible"),
        },
    )


def context_variables_schema() -> Schema:
    entries = either(by_name(ref("definition")), items(ref("definition")))
    lists = ("database_variables", "environment_variables", "declarative_variables", "derived_variables")
    exposure = mapping(
        "The variables that an agent sees",
        {
            **{name: text("The agent, if the entry is in a list") for name in ("agent_name", "agent", "name")},
            "variables": names("Variables"),
            "exposures": {"type": ["array", "null"]},
        },
    )
    fields = {
        **VERSION_FIELDS,
        **dict.fromkeys(("definitions", "variables", *lists), entries),
        "agents": either(
            by_name(either(names("Variables"), exposure)),
            items(exposure),
            description="The variables that each agent sees",
        ),
        **read_only_fields("schema_overview"),
        "context_variables": {"type": ["object", "null"], "description": "The same content, wrapped"},
    }
    definitions = {
        "trigger": _trigger_schema(),
        "transition": _transition_schema(),
        "source": _source_schema(),
        "definition": _definition_schema(),
    }
    return {
        **mapping("The context variables of a run, and the agents that see them", fields),
        "definitions": definitions,
    }
