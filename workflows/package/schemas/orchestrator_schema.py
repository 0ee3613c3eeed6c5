"""The schema of the orchestrator file."""

from typing import get_args

from workflows.context.values.value_types import TYPE_NAMES
from workflows.package.normal_form.package_model import Pattern, StartupMode
from workflows.package.readers.orchestrator_reader import ENVIRONMENT_NAME as VARIABLE
from workflows.package.readers.orchestrator_reader import MAX_REQUIRED_NAMES
from workflows.package.schemas.schema_vocabulary import (
    VERSION_FIELDS,
    Schema,
    above_zero,
    by_name,
    either,
    flag,
    items,
    mapping,
    nullable_text,
    one_of,
    read_only_fields,
    text,
    whole,
)
from workflows.package.trigger_specs.spec_field_types import NAME_PATTERN

_INPUT = mapping(
    "A value that a run takes from its trigger under this name",
    {
        "type": one_of(
            TYPE_NAMES,
            "A value of another type fails the run before any model call",
        ),
        "required": flag("Without a value the run fails before any model call"),
        "default": {"description": "Used if the trigger supplies no value"},
        "enum": {"type": ["array", "null"], "description": "The allowed values"},
        "format": nullable_text("email, date, uri"),
        "description": nullable_text("For readers"),
        "properties": {"type": ["object", "null"], "description": "Of an object"},
        "items": {"description": "Of an array"},
    },
)
_LIMITS = mapping(
    "Limits at which a run is stopped",
    {
        "max_turns": whole("Turns of the whole chat; default 50"),
        "wall_clock_s": above_zero("Seconds of work; default 3600"),
        "model_calls": whole("Calls of models; default 500"),
        "tool_calls": whole("Calls of tools; default 500"),
        "tokens": whole("Input and output of all models together; no default"),
        "usd": above_zero("Cost of the model calls by the prices of the models file; no default"),
    },
    additionalProperties=False,
)
_REQUIRES = mapping(
    "Requirements of a worker before a run of the package begins",
    {
        "env": {
            "type": ["array", "null"],
            "items": text("A name, never a value", pattern=f"^{VARIABLE.pattern}$"),
            "maxItems": MAX_REQUIRED_NAMES,
            "description": "Environment variables that must be set for the worker processes",
        }
    },
)


def orchestrator_schema() -> Schema:
    fields = {
        **VERSION_FIELDS,
        "workflow_name": text(
            "Name of the workflow; default: the directory's name", pattern=f"^{NAME_PATTERN.pattern}$"
        ),
        "description": nullable_text("For readers"),
        "orchestration_pattern": one_of(get_args(Pattern), "How the next speaker is chosen; default DefaultPattern"),
        "startup_mode": one_of(get_args(StartupMode), "Without effect: the first message always starts the chat"),
        "workflow_startup_mode": one_of(get_args(StartupMode), "Alias of startup_mode"),
        "human_in_the_loop": flag("true: a hand-off to user stops the run as needs_human; false: it completes the run"),
        "initial_agent": text("The first speaker; `user`: the rules of user choose the first speaker"),
        "recipient": text("Alias of initial_agent"),
        "initiating_agent": text("Alias of initial_agent"),
        "initial_message": nullable_text("The first message, if the trigger has none"),
        "initial_message_to_user": nullable_text("A greeting for a user interface; not executed"),
        "max_turns": whole("Turns of the whole chat; default 50"),
        "limits": either(_LIMITS, {"type": "null"}),
        "requires": either(_REQUIRES, {"type": "null"}),
        "retry": {"description": "Not executed yet"},
        "on_failure": {"description": "Not executed yet"},
        "failure_message_key": nullable_text("A text variable; its value is put before the reason of a failed run"),
        "inputs": {
            **by_name(either(_INPUT, {"type": "null"})),
            "description": "The values that a run takes from its trigger; other fields reach no prompt and no query",
        },
        **read_only_fields("entry_point", "outputs", "metadata"),
        "runtime_extensions": {"type": ["array", "null"], "description": "Not executed: a finding"},
        "visual_agents": {"type": ["array", "null"], "description": "For a user interface; not executed"},
        "triggers": items({"type": "object", "description": "As in triggers.yaml; use only one of the two"}),
    }
    first = [{"required": [name]} for name in ("initial_agent", "recipient", "initiating_agent")]
    return mapping("How a chat starts, continues and stops", fields, anyOf=first)
