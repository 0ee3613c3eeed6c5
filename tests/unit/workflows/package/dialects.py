"""The same small valid package in every dialect of the format, as data by stem."""

from collections.abc import Mapping
from typing import Any

TOOL_FILES = {
    "tools/greet.py": "def greet(name: str, context_variables=None) -> str:\n    return name\n",
    "tools/moments.py": "async def begin(context_variables):\n    return None\n",
    "tools/prompts.py": "def steer(agent, messages):\n    return None\n",
}
SECTIONS = [{"id": "role", "heading": "[ROLE]", "content": "You help."}, {"id": "x", "heading": "", "content": None}]
MODELS = {
    "Answer": {
        "type": "model",
        "fields": {
            "kind": {"type": "literal", "values": ["a", "b"]},
            "items": {"type": "list", "items": "Item"},
            "note": {"type": "union", "variants": ["str", "null"], "default": None},
        },
    },
    "Item": {"type": "model", "fields": {"parent": {"type": "Answer"}, "n": {"type": "optional_str"}}},
    "Alias": {"type": "literal", "values": ["x"]},
}
FIRST: dict[str, Any] = {
    "orchestrator": {
        "workflow_name": "First",
        "recipient": "A",
        "max_turns": 5,
        "human_in_the_loop": "false",
        "startup_mode": "BackendOnly",
        "orchestration_pattern": "DefaultPattern",
    },
    "agents": {"agents": {"A": {"system_message": "You are A."}, "B": {"system_message": "You are B."}}},
    "context_variables": {
        "context_variables": {
            "variables": [
                {"name": "v", "type": "string", "database": {"collection": "c", "query": {"app_id": "x"}, "field": "f"}}
            ],
            "schema_overview": "x",
        }
    },
    "handoffs": {"handoff_rules": [{"source_agent": "A", "target_agent": "B", "handoff_type": "after_work"}]},
    "tools": {
        "backend_tools": {"A": [{"path": "workflows.First.tools.greet.greet", "description": "d"}]},
        "lifecycle_tools": {"ALL_AGENTS": [{"path": "workflows.First.tools.moments.begin", "trigger": "on_start"}]},
    },
}
FOUR_TYPES: dict[str, Any] = {
    "orchestrator": {
        "workflow_name": "Four",
        "initial_agent": "A",
        "triggers": [{"type": "cron", "cron": "0 6 * * 1", "apps": ["acme"], "input": {"x": "=nominal_at"}}],
        "inputs": {"scope": {"type": "string", "enum": ["a"], "required": True}},
    },
    "agents": {"agents": [{"name": "A", "prompt_sections": SECTIONS, "max_consecutive_auto_reply": 2}, {"name": "B"}]},
    "context_variables": {
        "definitions": {
            "env": {"type": "boolean", "source": {"type": "environment", "env_var": "X", "default": False}},
            "doc": {
                "type": "string",
                "source": {
                    "type": "database",
                    "database_name": "d",
                    "collection": "c",
                    "search_by": "app_id",
                    "field": "f",
                },
            },
            "fixed": {"type": "string", "source": {"type": "static", "value": "beta"}},
            "done": {
                "type": "boolean",
                "source": {
                    "type": "derived",
                    "default": False,
                    "triggers": [{"type": "agent_text", "agent": "A", "match": {"regex": r"(?m)^\s*NEXT\s*$"}}],
                },
            },
        },
        "agents": {"A": {"variables": ["doc", "done"]}, "B": ["env"]},
    },
    "handoffs": {
        "handoffs": {
            "handoff_rules": [
                {
                    "source_agent": "A",
                    "target_agent": "B",
                    "handoff_type": "condition",
                    "condition_type": "expression",
                    "condition": "${done} == True and len(${doc}) > 0",
                    "condition_scope": "pre",
                    "transition_target": "AgentTarget",
                },
                {"source_agent": "B", "target_agent": "user", "handoff_type": "after_work"},
                {"source_agent": "A", "target_agent": "terminate", "handoff_type": "after_work"},
            ]
        }
    },
    "tools": {
        "tools": [
            {"agent": ["A"], "file": "greet.py", "function": "greet", "tool_type": "Agent_Tool", "auto_invoke": None},
            {"agent": "B", "file": "greet.py", "function": "greet", "tool_type": "UI_Tool", "ui": {"component": "C"}},
        ],
        "lifecycle_tools": [{"trigger": "before_chat", "agent": None, "file": "moments.py", "function": "begin"}],
    },
    "hooks": {
        "hooks": [
            {"hook_type": "update_agent_state", "hook_agent": "A", "filename": "prompts.py", "function": "steer"},
            {
                "hook_type": "update_agent_state",
                "hook_agent": "all",
                "files": [{"filename": "prompts.py", "filecontent": "x"}],
                "function": "prompts:steer",
            },
        ]
    },
    "structured_outputs": {"structured_outputs": {"models": MODELS}, "registry": {"A": "Answer", "B": None}},
}
NETWORK: dict[str, Any] = {
    "orchestrator": {
        "schema_version": "x",
        "workflow_name": "Network",
        "initial_agent": "A",
        "orchestration_pattern": "ag2_network",
        "workflow_startup_mode": "AgentDriven",
        "failure_message_key": "state",
        "limits": {"max_turns": 3, "wall_clock_s": 60},
    },
    "agents": [{"agent_name": "A", "structured_outputs_required": True}, {"name": "B", "auto_tool_mode": True}],
    "context_variables": {
        "definitions": [
            {
                "name": "state",
                "type": "string",
                "source": {
                    "type": "state",
                    "default": "new",
                    "transitions": [
                        {
                            "from": "new",
                            "to": "done",
                            "trigger": {"type": "agent_text", "agent": "A", "match": {"equals": "x"}},
                        },
                        {"trigger": {"type": "ui_response", "tool": "greet", "response_key": "k"}},
                    ],
                },
                "authority_class": "x",
            },
            {"name": "total", "source": {"type": "computed", "computation": "a.b", "inputs": {"a": "state"}}},
            {"name": "rate", "source": {"type": "external", "url": "https://rates.test/x", "timeout_s": 2}},
            {"name": "text", "source": {"type": "file", "path": "data.json", "format": "json", "default": None}},
            {"name": "given", "source": {"type": "runtime", "required": True}},
            {
                "name": "entity",
                "type": "object",
                "source": {
                    "type": "data_entity",
                    "database_name": "d",
                    "collection": "c",
                    "search_by": "user_id",
                    "fields": ["f"],
                    "write_strategy": "on_success",
                },
            },
        ],
        "agents": [{"agent_name": "A", "variables": ["state", "total"]}],
    },
    "transition_graph": {
        "transition_rules": [
            {
                "source_agent": "A",
                "target_agent": "terminate",
                "transition_type": "condition",
                "condition_type": "context_equals",
                "condition_key": "state",
                "condition_value": "done",
                "termination_reason": "workflow_complete",
            },
            {"source_agent": "A", "target_agent": "B", "transition_type": "after_turn"},
            {"from": "B", "to": "A"},
        ]
    },
    "tools": [
        {"agent": "A", "file": "tools/greet.py", "function": "greet", "tool_type": "UI_Surface", "ui_contract": {}},
        {"agent": "B", "file": "greet.py", "function": "greet", "auto_tool_call": False, "outcome": {"k": "v"}},
    ],
    "middleware": {"prompt_middleware": [{"agent": "A", "filename": "prompts.py", "function": "steer"}]},
    "structured_outputs": {"models": MODELS, "registry": {"A": "Answer", "B": "Item"}},
    "triggers": [
        {"name": "hook", "type": "webhook", "verify": {"scheme": "github", "secret": "env:X"}, "apps": ["acme"]},
        {"name": "change", "type": "database_condition", "database": "d", "collection": "c", "when": "a == 'b'"},
        {"name": "form", "type": "form_submit", "apps": ["acme"], "inputs": {"email": {"type": "string"}}},
    ],
    "ui_config": {"visual_agents": None},
}
FLAT: dict[str, Any] = {
    "orchestrator": {"orchestrator": {"workflow_name": "Flat", "initial_agent": "A"}},
    "agents": {"A": {"prompt_sections": {"role": {"heading": "h", "content": "c"}}}},
    "context_variables": {"v": {"type": "string", "description": "d", "default": "x", "enum": ["x", "y"]}},
    "handoffs": {"transitions": [{"after_turn": "A", "terminate_if": {"variable": "v", "equals": "x"}}]},
}
DIALECTS: Mapping[str, Mapping[str, Any]] = {"first": FIRST, "four": FOUR_TYPES, "network": NETWORK, "flat": FLAT}
