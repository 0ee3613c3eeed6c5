"""The schemas of the tools, hooks and middleware files."""

from typing import get_args

from workflows.package.normal_form.package_model import HookKind, OnError, ToolKind
from workflows.package.readers.tools.lifecycle_tools_reader import MOMENTS
from workflows.package.schemas.schema_vocabulary import (
    VERSION_FIELDS,
    Schema,
    by_name,
    either,
    flag,
    items,
    mapping,
    names,
    not_executed_fields,
    nullable_text,
    one_of,
    read_only_fields,
    ref,
    text,
)

_FILE_HELP = "In the package, its tools folder, or ../_shared beside the package"
_HOOK_FILE_HELP = "In the package, its tools or hooks folder, or ../_shared beside the package"
_OWNERS = either({"type": ["string", "null"]}, names("Agents"), description="The agent or agents that may call it")
_TIMEOUT = {
    "type": ["number", "string", "null"],
    "description": "Maximum duration of a call: 30, or 5m; default 300 s. Aliases: timeout_seconds, timeout",
}
_TOOL = mapping(
    "A function an agent may call",
    {
        "agent": _OWNERS,
        "agents": _OWNERS,
        "file": text(_FILE_HELP),
        "function": text("A function that the file defines"),
        "description": nullable_text("Description for the model"),
        "name": nullable_text("Must be the function's name, by which the model calls it"),
        "tool_type": one_of(
            get_args(ToolKind),
            "UI tools need a person: the run stops as needs_human, unless its trigger has ui_responses",
        ),
        "auto_invoke": flag(
            "Called with the agent's structured reply, if the agent is in auto_tool_mode or bind_to_agent is false"
        ),
        "auto_tool_call": flag("Alias of auto_invoke"),
        "bind_to_agent": flag(
            "false: not offered to the model; with auto_invoke it is called with the structured reply"
        ),
        "effects": one_of(
            ("none", "unknown"), "none: calls change nothing, so a replay may repeat them without confirmation"
        ),
        "timeout_s": _TIMEOUT,
        "timeout_seconds": _TIMEOUT,
        "timeout": _TIMEOUT,
        "on_error": one_of(
            get_args(OnError),
            "After a failed call: tell (default) returns the error to the model, fail ends the run as tool_error",
        ),
        **read_only_fields("ui", "ui_contract", "display", "outcome", "constraints", "integration"),
    },
    required=["file", "function"],
)
_LIFECYCLE = mapping(
    "A function that is called at a moment of the run, with context_variables and the run's ids",
    {
        "trigger": one_of(tuple(MOMENTS), "The moment of the call"),
        "agent": nullable_text("Of before_agent and after_agent; null: every agent"),
        "file": text(_HOOK_FILE_HELP),
        "function": text("A function that the file defines"),
        "description": nullable_text("For readers"),
        **read_only_fields("tool_type", "ui", "auto_invoke"),
        **not_executed_fields("integration"),
    },
    required=["trigger", "file", "function"],
)
_EARLY_TOOL = mapping(
    "The early form of a tool",
    {"path": text("workflows.Name.tools.module.function"), "description": nullable_text("Description for the model")},
)
_ABSENT_FIELD = {
    "type": "null",
    "description": "Not with the other field: an entry is either a hook or a lifecycle tool",
}
_CODE = {"content": {"type": ["string", "null"], "description": "Not executed: the code is in the file"}}
_HOOK = mapping(
    "A function that changes an agent's prompt or reply",
    {
        "hook_type": one_of(get_args(HookKind), "The step that it changes"),
        "trigger": _ABSENT_FIELD,
        "hook_agent": text("An agent, or all"),
        "filename": nullable_text(_HOOK_FILE_HELP),
        "function": text("A function that the file defines; module:function is the early form"),
        "files": items(mapping("The early form of filename", {"filename": text("A file of the package")})),
        **_CODE,
    },
    required=["hook_type", "hook_agent", "function"],
)
_LIFECYCLE_HOOK = mapping(
    "A lifecycle tool: a function that is called at a moment of the run",
    {
        "trigger": {"enum": list(MOMENTS), "description": "The moment of the call"},
        "hook_type": _ABSENT_FIELD,
        "hook_agent": nullable_text("Of before_agent and after_agent: an agent; absent or all: every agent"),
        "agent": nullable_text("Alias of hook_agent"),
        "filename": nullable_text(_HOOK_FILE_HELP),
        "function": nullable_text("A function that the file defines; default: the file's name"),
        "files": items(mapping("The early form of filename", {"filename": text("A file of the package")})),
        **_CODE,
        **not_executed_fields("integration"),
    },
    required=["trigger"],
)
_MIDDLEWARE = mapping(
    "A hook of type update_agent_state",
    {
        "agent": text("An agent, or all"),
        "filename": nullable_text(_HOOK_FILE_HELP),
        "function": text("A function that the file defines"),
        **_CODE,
    },
    required=["agent", "function"],
)


def tools_schema() -> Schema:
    listed, early = items(ref("tool")), by_name(items(ref("early")))
    fields = {
        **VERSION_FIELDS,
        "tools": listed,
        "lifecycle_tools": either(items(ref("lifecycle")), early),
        "backend_tools": early,
        "ui_tools": early,
    }
    body = either({"type": "object", "properties": fields}, listed, description="The tools of the agents")
    return {**body, "definitions": {"tool": _TOOL, "lifecycle": _LIFECYCLE, "early": _EARLY_TOOL}}


def hooks_schema() -> Schema:
    entries = items(either(ref("hook"), ref("lifecycle")))
    fields = {**VERSION_FIELDS, "hooks": entries, "hook_files": entries, "prompt_middleware": items(ref("middleware"))}
    description = "Functions around an agent's reply, and at moments of the run"
    body = either({"type": "object", "properties": fields}, entries, description=description)
    return {**body, "definitions": {"hook": _HOOK, "lifecycle": _LIFECYCLE_HOOK, "middleware": _MIDDLEWARE}}


def middleware_schema() -> Schema:
    entries = items(ref("entry"))
    fields = {**VERSION_FIELDS, "prompt_middleware": entries}
    body = either(
        {"type": "object", "properties": fields}, entries, description="Functions that add to an agent's prompt"
    )
    return {**body, "definitions": {"entry": _MIDDLEWARE}}
