"""Served names: modules of another runtime, and their replacements here.

The checks read this table too. They import neither a package nor the modules in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

FOREIGN_WORKFLOWS = "factory_app.workflows"  # the folder of packages in the other runtime's wheel


@dataclass(frozen=True, slots=True)
class ServedModule:
    """A module of `workflows.compat`, and the names that it serves.

    `is_whole`: it replaces the whole foreign module, so an unknown name is a misspelt name. Otherwise an unknown name
    belongs to the other runtime.
    """

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
    """Returns whether `from folder import name` imports a served module."""
    module = SERVED.get(f"{folder}.{name}")
    return module is not None and module.is_whole
