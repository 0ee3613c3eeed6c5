"""The served names: which module of another runtime is served by which of ours, and what each one has.

Read by the checks too, which import neither a package nor these modules.
"""

from collections.abc import Mapping
from dataclasses import dataclass

FOREIGN_WORKFLOWS = "factory_app.workflows"  # the other runtime's folder of packages, as its wheel names it


@dataclass(frozen=True, slots=True)
class ServedModule:
    """`module` is ours, in this package. `is_whole`: a name that it lacks is a mistake in that name; of the others only
    the names are served, and everything else of them is another runtime."""

    module: str
    names: frozenset[str]
    is_whole: bool = True


_LOGGING = ServedModule(
    "logging_config",
    frozenset(
        {
            "ContextLogger",
            "get_core_config_logger",
            "get_core_logger",
            "get_data_logger",
            "get_events_logger",
            "get_observability_logger",
            "get_transport_logger",
            "get_workflow_logger",
            "get_workflow_logger_detailed",
            "get_workflow_session_logger",
            "log_operation",
        }
    ),
)
_TOOL_LOGS = ServedModule("tools_logs", frozenset({"ToolLoggerAdapter", "get_tool_logger", "log_tool_event"}))
_UI_TOOLS = ServedModule("ui_tools", frozenset({"UIToolError", "emit_ui_surface", "use_ui_tool"}))
_CORE_CONFIG = ServedModule("core_config", frozenset({"get_mongo_client"}))
_FROZEN = ServedModule("frozen", frozenset({"detach"}))
_AUTOGEN = ServedModule("autogen", frozenset({"ContextVariables"}), is_whole=False)

SERVED: Mapping[str, ServedModule] = {
    "logs.logging_config": _LOGGING,
    "logs.tools_logs": _TOOL_LOGS,
    "core.workflow.outputs.ui_tools": _UI_TOOLS,
    "core.workflow.ui_tools": _UI_TOOLS,
    "mozaiksai.core.workflow.outputs.ui_tools": _UI_TOOLS,
    "mozaiksai.core.workflow.ui_tools": _UI_TOOLS,
    "core.core_config": _CORE_CONFIG,
    "mozaiksai.core.core_config": _CORE_CONFIG,
    "mozaiksai.core.workflow.context.frozen": _FROZEN,
    "autogen": _AUTOGEN,
    "autogen.agentchat.group": _AUTOGEN,
    "autogen.agentchat.group.context_variables": _AUTOGEN,
}
ROOTS = frozenset(name.partition(".")[0] for name in SERVED)


def is_served_within(folder: str, name: str) -> bool:
    """Whether `from folder import name` takes a served module, such as `from core import core_config`."""
    module = SERVED.get(f"{folder}.{name}")
    return module is not None and module.is_whole
