"""The exported JSON Schemas: valid, consistent with the loader, and strict about mistakes."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from jsonschema import Draft7Validator

from ops.cli.main import cli
from tests.unit.workflows.packages import AGENTS, ORCHESTRATOR
from workflows.context.observers.registry import trigger_types
from workflows.package.catalog import LIBRARY
from workflows.package.files.package_files import STEMS
from workflows.package.schemas.package_schemas import SCHEMA_NAMES, build_schema

SHIPPED = sorted(path for path in LIBRARY.rglob("*.yaml") if path.stem in SCHEMA_NAMES)


def complaints(name: str, body: Any) -> list[str]:
    return [error.message for error in Draft7Validator(build_schema(name)).iter_errors(body)]


def test_every_file_has_one() -> None:
    assert set(SCHEMA_NAMES) == {*STEMS, "ui_config", "task_batches", "models", "unattended"}


@pytest.mark.parametrize("name", SCHEMA_NAMES)
def test_it_is_a_schema(name: str) -> None:
    Draft7Validator.check_schema(build_schema(name))


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: f"{path.parent.name}/{path.name}")
def test_what_we_ship_fits(path: Path) -> None:
    assert complaints(path.stem, yaml.safe_load(path.read_text(encoding="utf-8"))) == []


ON_ANSWER = {"type": "ui_response", "tool": "pay", "response_key": "verdict", "match": {"in": ["yes", 1]}}
NIGHTLY = {"type": "schedule", "cron": "0 6 * * *"}
MOMENT = {"filename": "hooks/before_chat.py", "trigger": "before_chat", "integration": None}
RULE = {"source_agent": "A", "target_agent": "B"}
FITTING: list[tuple[str, Any]] = [
    ("orchestrator", ORCHESTRATOR),
    ("orchestrator", {"recipient": "A", "human_in_the_loop": "yes", "initial_message": None}),
    ("orchestrator", {**ORCHESTRATOR, "requires": {"env": ["SLACK_WEBHOOK_URL"]}}),
    ("agents", AGENTS),
    ("agents", AGENTS["agents"]),
    ("agents", {"A": {"prompt_sections": {"role": {"heading": "[ROLE]", "content": None}}}}),
    ("handoffs", {"handoff_rules": [RULE]}),
    ("handoffs", {"handoffs": {"handoff_rules": [RULE]}}),
    ("handoffs", {"handoffs": [RULE]}),
    ("transition_graph", {"transition_rules": [{**RULE, "condition": True, "condition_type": None}]}),
    ("tools", {"tools": [{"agent": ["A"], "file": "x.py", "function": "x"}], "lifecycle_tools": []}),
    ("hooks", {"hooks": [{"hook_type": "update_agent_state", "hook_agent": "all", "function": "f"}]}),
    ("hooks", {"hook_files": [{**MOMENT, "content": "def before_chat(): ...", "hook_type": None}]}),
    ("hooks", [MOMENT, {"hook_type": "update_agent_state", "hook_agent": "all", "function": "f", "trigger": None}]),
    ("hooks", {"hooks": [{"trigger": "workflow_end", "agent": "A", "filename": "x.py", "function": None}]}),
    ("middleware", {"prompt_middleware": [{"agent": "A", "function": "f"}]}),
    (
        "context_variables",
        {"definitions": {"v": {"source": {"type": "state", "trigger": {"type": "tool_call", "tool": "x"}}}}},
    ),
    (
        "context_variables",
        {
            "definitions": {
                "v": {"source": {"type": "state", "triggers": [{"type": "handoff", "from": "A", "to": "B"}]}}
            }
        },
    ),
    (
        "context_variables",
        {"definitions": {"v": {"source": {"type": "state", "triggers": [{"type": "lifecycle", "event": "on_start"}]}}}},
    ),
    (
        "structured_outputs",
        {"models": {"M": {"type": "model", "fields": {"a": {"type": "M"}}}}, "registry": {"A": "M"}},
    ),
    ("structured_outputs", {"models": [{"name": "M", "type": "literal", "values": ["a"]}], "registry": []}),
    ("context_variables", {"definitions": {"v": {"type": "bool", "source": {"type": "config", "env_var": "V"}}}}),
    ("context_variables", {"definitions": [{"name": "v", "source": {"type": "state", "default": 1}}], "agents": []}),
    (
        "context_variables",
        {"derived_variables": [{"name": "v", "triggers": [{"type": "timer_expired", "after": "5m"}]}]},
    ),
    ("triggers", {"triggers": [{"type": "scheduled", "cron": "0 6 * * 1", "misfire": {"grace": "60s"}}]}),
    (
        "context_variables",
        {"definitions": {"v": {"source": {"type": "state", "transitions": [{"to": 1, "trigger": ON_ANSWER}]}}}},
    ),
    ("triggers", {"triggers": [{**NIGHTLY, "ui_responses": {"pay": [{"when": "payload", "answer": {"a": 1}}]}}]}),
    ("triggers", {"triggers": [{**NIGHTLY, "ui_responses": {"pay": {"verdict": "yes"}}}]}),
    ("task_batches", {"version": 1, "conveyors": [{"id": "x", "execution_agents": ["A"]}]}),
    ("ui_config", {"visual_agents": None}),
    ("models", {"models": {"local": {"provider": "openai", "model": "m", "timeout": "60s"}}, "prices": None}),
    ("triggers", [{"type": "webhook", "verify": {"scheme": "github", "secret": "env:S"}, "name": "hook"}]),
]


@pytest.mark.parametrize(("name", "body"), FITTING)
def test_every_dialect_fits(name: str, body: Any) -> None:
    assert complaints(name, body) == []


@pytest.mark.design("D2-15")
@pytest.mark.parametrize("kind", sorted(trigger_types()))
def test_every_trigger_of_a_variable_is_in_its_schema(kind: str) -> None:
    assert kind in build_schema("context_variables")["definitions"]["trigger"]["properties"]["type"]["enum"]


WRONG: list[tuple[str, Any]] = [
    ("orchestrator", {"workflow_name": "S"}),
    ("orchestrator", {**ORCHESTRATOR, "requires": {"env": ["SLACK=https://x"]}}),
    ("orchestrator", {**ORCHESTRATOR, "requires": ["SLACK"]}),
    ("orchestrator", {**ORCHESTRATOR, "orchestration_pattern": "Swarm"}),
    ("orchestrator", {**ORCHESTRATOR, "limits": {"max_turn": 3}}),
    ("agents", {"agents": 3}),
    ("handoffs", {"handoff_rules": [{**RULE, "handoff_type": "sometimes"}]}),
    ("tools", {"tools": [{"agent": "A", "file": "x.py"}]}),
    ("hooks", {"hooks": [{"hook_type": "before_everything", "hook_agent": "A", "function": "f"}]}),
    ("hooks", {"hook_files": [{**MOMENT, "hook_type": "update_agent_state"}]}),
    ("hooks", {"hook_files": [{**MOMENT, "trigger": "at_noon"}]}),
    (
        "context_variables",
        {"definitions": {"v": {"source": {"type": "state", "triggers": [{"type": "lifecycle", "event": "noon"}]}}}},
    ),
    ("middleware", {"prompt_middleware": [{"agent": "A"}]}),
    ("structured_outputs", {"models": {"M": {"type": "model", "fields": {"a": {"description": "no type"}}}}}),
    ("context_variables", {"definitions": {"v": {"source": {"type": "crystal_ball"}}}}),
    ("context_variables", {"definitions": {"v": {"source": {"type": "external", "url": "u", "auth": "s3cret"}}}}),
    ("triggers", {"triggers": [{"type": "schedule", "crom": "0 6 * * 1"}]}),
    ("triggers", {"triggers": [{**NIGHTLY, "ui_responses": {"pay": [{"when": "payload"}]}}]}),
    ("triggers", {"triggers": [{**NIGHTLY, "ui_responses": {"pay": "yes"}}]}),
    ("context_variables", {"derived_variables": [{"name": "v", "triggers": [{**ON_ANSWER, "match": {"any": False}}]}]}),
    ("task_batches", {"batches": [{"trigger_agent": "A"}]}),
    ("models", {"models": {"local": {"provider": "openai", "modle": "m"}}}),
]


@pytest.mark.parametrize(("name", "body"), WRONG)
def test_a_mistake_is_noticed(name: str, body: Any) -> None:
    assert complaints(name, body)


def described_fields(schema: Any) -> Iterator[str]:
    if isinstance(schema, Mapping):
        if isinstance(schema.get("type"), list | str) and "properties" in schema:
            yield from schema["properties"]
        for part in schema.values():
            yield from described_fields(part)
    elif isinstance(schema, list):
        for part in schema:
            yield from described_fields(part)


def test_the_command_prints_one_and_writes_all(tmp_path: Path) -> None:
    printed = CliRunner().invoke(cli, ["packages", "schema", "tools"])
    written = CliRunner().invoke(cli, ["packages", "schema", "--output", str(tmp_path / "schemas")])

    assert json.loads(printed.stdout) == build_schema("tools")
    assert written.exit_code == 0
    files = {path.name: json.loads(path.read_text()) for path in (tmp_path / "schemas").iterdir()}
    assert files == {f"{name}.schema.json": build_schema(name) for name in SCHEMA_NAMES}


def test_an_unknown_file_is_wrong_use() -> None:
    result = CliRunner().invoke(cli, ["packages", "schema", "salads"])

    assert result.exit_code == 2
    assert "salads" in result.output
