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
from workflows.package.trigger_specs.spec_values import NAME_PATTERN

_INPUT = mapping(
    "What a run takes from its trigger under this name",
    {
        "type": one_of(
            TYPE_NAMES,
            "A value of another type fails the run before any model call",
        ),
        "required": flag("Missing: the run fails before any model call"),
        "default": {"description": "Used when the trigger gives nothing"},
        "enum": {"type": ["array", "null"], "description": "The values allowed"},
        "format": nullable_text("email, date, uri"),
        "description": nullable_text("For readers"),
        "properties": {"type": ["object", "null"], "description": "Of an object"},
        "items": {"description": "Of an array"},
    },
)
_LIMITS = mapping(
    "Where a run is stopped",
    {
        "max_turns": whole("Turns of the whole chat; default 50"),
        "wall_clock_s": above_zero("Seconds of work; default 3600"),
        "model_calls": whole("Calls of models; default 500"),
        "tool_calls": whole("Calls of tools; default 500"),
        "tokens": whole("Input and output of all models together; no default"),
        "usd": above_zero("What the model calls cost, by the prices of the models file; no default"),
    },
    additionalProperties=False,
)
_REQUIRES = mapping(
    "What a worker must have before a run of the package begins",
    {
        "env": {
            "type": ["array", "null"],
            "items": text("A name, never a value", pattern=f"^{VARIABLE.pattern}$"),
            "maxItems": MAX_REQUIRED_NAMES,
            "description": "Environment variables that must be set where the worker is started",
        }
    },
)


def orchestrator_schema() -> Schema:
    fields = {
        **VERSION_FIELDS,
        "workflow_name": text(
            "Identity of the workflow; default: the directory's name", pattern=f"^{NAME_PATTERN.pattern}$"
        ),
        "description": nullable_text("For readers"),
        "orchestration_pattern": one_of(get_args(Pattern), "Who decides on the next speaker; default DefaultPattern"),
        "startup_mode": one_of(get_args(StartupMode), "Nobody is in the chat: the first message starts it anyway"),
        "workflow_startup_mode": one_of(get_args(StartupMode), "Another name of startup_mode"),
        "human_in_the_loop": flag("true: a hand-off to user rests the run as needs_human; false: it completes it"),
        "initial_agent": text("The first speaker; `user`: the rules of user choose it"),
        "recipient": text("Another name of initial_agent"),
        "initiating_agent": text("Another name of initial_agent"),
        "initial_message": nullable_text("The first message, unless the trigger has one"),
        "initial_message_to_user": nullable_text("A greeting for a user interface; not executed"),
        "max_turns": whole("Turns of the whole chat; default 50"),
        "limits": either(_LIMITS, {"type": "null"}),
        "requires": either(_REQUIRES, {"type": "null"}),
        "retry": {"description": "Not executed yet"},
        "on_failure": {"description": "Not executed yet"},
        "failure_message_key": nullable_text("The text variable whose value stands before the reason of a failed run"),
        "inputs": {
            **by_name(either(_INPUT, {"type": "null"})),
            "description": "What a run may take from its trigger; no other field reaches a prompt or a query",
        },
        **read_only_fields("entry_point", "outputs", "metadata"),
        "runtime_extensions": {"type": ["array", "null"], "description": "Ignored by a worker, with a finding"},
        "visual_agents": {"type": ["array", "null"], "description": "For a user interface; not executed"},
        "triggers": items({"type": "object", "description": "As in triggers.yaml; keep them in one place"}),
    }
    first = [{"required": [name]} for name in ("initial_agent", "recipient", "initiating_agent")]
    return mapping("How a conversation starts, flows and stops", fields, anyOf=first)
