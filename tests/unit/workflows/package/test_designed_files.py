"""Files from the designs, field by field: read without errors, with their meaning."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, build_chat
from tests.unit.workflows.contexts import FakeDocuments, values_of
from tests.unit.workflows.packages import errors, load, write_tool
from workflows.context.observers.agent_text import AgentTextTrigger
from workflows.outcome import OutcomeKind
from workflows.package.loader import load_package
from workflows.package.normal_form.package_model import Package
from workflows.package.normal_form.variable_sources import DatabaseSource, EnvSource, RuntimeSource, StateSource


def source(kind: str, **written: Any) -> dict[str, Any]:
    return {"type": kind, **written}


def text_trigger(text: str, agent: str = "A") -> dict[str, Any]:
    return {"type": "agent_text", "agent": agent, "match": {"equals": text}}


ASKING = {"type": "ui_response", "tool": "action_plan", "response_key": "plan_acceptance"}
CONCEPTS = {"database_name": "autogen_ai_agents", "collection": "Concepts", "search_by": "enterprise_id"}
FOUR_CATEGORIES: dict[str, Any] = {
    "context_variables": {
        "definitions": {
            "product_tier": {"type": "string", "description": "tier", "source": source("static", value="beta")},
            "max_items": {"type": "integer", "source": source("static", value=25)},
            "concept_overview": {"type": "string", "source": source("database", **CONCEPTS, field="ConceptOverview")},
            "user_profile": {"type": "document", "source": source("database", **CONCEPTS, field="Profile")},
            "context_aware": {
                "type": "boolean",
                "source": source("environment", env_var="CONTEXT_AWARE", default=True),
            },
            "feature_x_enabled": {
                "type": "boolean",
                "source": source("environment", env_var="FEATURE_X_ENABLED", default=False),
            },
            "interview_complete": {
                "type": "boolean",
                "source": source("derived", default=False, triggers=[text_trigger("NEXT")]),
            },
            "action_plan_acceptance": {
                "type": "string",
                "source": source("derived", default="pending", triggers=[ASKING]),
            },
            "form_submission": {"type": "object", "source": source("derived", default=None, triggers=[ASKING])},
        },
        "agents": {
            "A": {"variables": ["enterprise_id", "context_aware", "concept_overview"]},
            "B": {"variables": ["interview_complete", "action_plan_acceptance"]},
        },
    }
}
CONSTANTS = {"product_tier": "beta", "max_items": 25}
STATES = {"interview_complete": False, "action_plan_acceptance": "pending", "form_submission": None}
FLAGS = {"context_aware": True, "feature_x_enabled": False, "monetization_enabled": False}
DOCUMENTS = {"concept_overview": "a shop", "user_profile": {"plan": "gold"}}
STORED = {"ConceptOverview": "a shop", "Profile": {"plan": "gold"}}


def with_variables(folder: Path, body: Any) -> Package:
    write_tool(folder, "action_plan.py", "def action_plan(): ...\n")
    tools = [{"agent": "A", "file": "action_plan.py", "function": "action_plan", "tool_type": "UI_Tool"}]
    package = load(folder, context_variables=json.dumps(body), tools=tools)
    assert errors(package) == []
    return package


@pytest.mark.design("D1-7", "D1-18", "D1-28", "D1-44", "D1-46", "D1-48", "D2-4")
@pytest.mark.parametrize(
    ("options", "loaded"),
    [
        ({}, {**CONSTANTS, **STATES, **FLAGS, **DOCUMENTS}),
        ({"production": True}, {**CONSTANTS, **STATES, **DOCUMENTS}),
        ({"include_schema": False}, {**CONSTANTS, **STATES, **FLAGS}),
        ({"production": True, "include_schema": False}, {**CONSTANTS, **STATES}),
    ],
)
async def test_the_four_categories_of_variables(
    tmp_path: Path, options: dict[str, Any], loaded: dict[str, Any]
) -> None:
    package = with_variables(tmp_path, FOUR_CATEGORIES)

    values = await values_of(package, shop=FakeDocuments(STORED), **options)

    names = FOUR_CATEGORIES["context_variables"]["definitions"].keys() | FLAGS.keys()
    assert {name: value for name, value in values.items() if name in names} == loaded
    assert values["enterprise_id"] == "acme"
    assert package.exposures["A"] == ("enterprise_id", "context_aware", "concept_overview")


@pytest.mark.design("D2-1", "D2-2", "D2-3", "D2-7", "D2-8")
def test_derived_variables_are_a_list_of_their_own(tmp_path: Path) -> None:
    derived = {
        "name": "interview_complete",
        "description": "True once the interview agent terminates the onboarding chat.",
        "default": False,
        "triggers": [text_trigger("TERMINATE")],
    }

    package = with_variables(tmp_path, {"context_variables": {"derived_variables": [derived]}})

    variable = package.variables["interview_complete"]
    assert isinstance(variable.source, StateSource)
    [transition] = variable.source.transitions
    assert transition.trigger == AgentTextTrigger("A", equals="TERMINATE")
    assert (variable.type, variable.default, variable.description) == ("boolean", False, derived["description"])


DEFINED = {"collection": "Concepts", "search_by": "app_id", "field": "f"}


@pytest.mark.design("D2-1")
def test_defined_runtime_and_derived_variables_stand_together(tmp_path: Path) -> None:
    body = {
        "database_variables": [{"name": "a", "database_name": "d", **DEFINED}],
        "derived_variables": [{"name": "b", "triggers": [ASKING]}],
        "definitions": {"c": {"source": source("runtime")}},
    }

    sources = [variable.source for variable in with_variables(tmp_path, body).variables.values()]

    assert {type(source) for source in sources} == {DatabaseSource, StateSource, RuntimeSource}


@pytest.mark.design("D1-27")
def test_a_database_variable_may_name_a_database_of_its_own(tmp_path: Path) -> None:
    variables = [{"name": "a", **DEFINED}, {"name": "b", **DEFINED, "database_name": "own"}]

    package = with_variables(tmp_path, {"database_name": "d", "database_variables": variables})

    sources = [variable.source for variable in package.variables.values()]
    assert [source.database for source in sources if isinstance(source, DatabaseSource)] == ["d", "own"]


SECTIONS = [
    {"id": "role", "heading": "[ROLE]", "content": "You route."},
    {"id": "objective", "heading": "[OBJECTIVE]", "content": "Find the domain."},
    {"id": "context", "heading": "[CONTEXT]", "content": "Support."},
    {"id": "instructions", "heading": "[INSTRUCTIONS]", "content": "Name one domain."},
]
NO_UI = {"component": None, "mode": None}
# The files of a package, with a value for every field of the design except those of screens.
FILE_SET: dict[str, Any] = {
    "orchestrator": {
        "workflow_name": "CustomerSupportRouter",
        "max_turns": 30,
        "human_in_the_loop": False,
        "startup_mode": "BackendOnly",
        "orchestration_pattern": "DefaultPattern",
        "initial_message_to_user": None,
        "initial_message": "Where is my invoice?",
        "initial_agent": "RouterAgent",
    },
    "agents": {
        "agents": [
            {
                "agent_name": name,
                "prompt_sections": SECTIONS,
                "max_consecutive_auto_reply": 20,
                "auto_tool_mode": name == "RouterAgent",
                "structured_outputs_required": name == "RouterAgent",
            }
            for name in ("RouterAgent", "TechSpecialist", "FinanceSpecialist")
        ]
    },
    "context_variables": {
        "ContextVariablesPlan": {
            "definitions": {
                "support_mail": {
                    "type": "str",
                    "description": "Where answers come from",
                    "source": source("config", env_var="SUPPORT_MAIL", default_value="help@acme", required=False),
                },
                "current_domain": {
                    "type": "str",
                    "description": "The domain of the request",
                    "source": source("state", initial="unknown"),
                },
            },
            "agents": {"RouterAgent": ["current_domain"], "FinanceSpecialist": ["support_mail", "current_domain"]},
        }
    },
    "handoffs": {
        "handoff_rules": [
            {
                "source_agent": "RouterAgent",
                "target_agent": f"{domain.capitalize()}Specialist",
                "condition": f"${{current_domain}} == '{domain}'",
                "condition_scope": "post",
                "priority": priority,
            }
            for priority, domain in enumerate(("tech", "finance"), 1)
        ]
        + [
            {"source_agent": f"{domain}Specialist", "target_agent": "terminate", "priority": 1}
            for domain in ("Tech", "Finance")
        ]
    },
    "structured_outputs": {
        "models": [
            {
                "name": "RequestAnalysis",
                "type": "model",
                "fields": {
                    "domain": {"type": "str", "description": "Which specialist"},
                    "urgency": {"type": "int", "description": "1 to 5"},
                    "topics": {"type": "list", "items": "str", "description": "What it is about"},
                },
            }
        ],
        "registry": [{"agent": "RouterAgent", "model": "RequestAnalysis"}],
    },
    "tools": {
        "tools": [
            {
                "agent": "RouterAgent",
                "file": "analyze_request.py",
                "function": "analyze_request",
                "description": "Keeps the domain",
                "tool_type": "Agent_Tool",
                "auto_invoke": True,
                "ui": NO_UI,
            }
        ],
        "lifecycle_tools": [],
    },
}
ANALYSIS = {"domain": "finance", "urgency": 2, "topics": ["invoice"]}
ANALYZE = "async def analyze_request(domain, context_variables):\n    context_variables.set('current_domain', domain)\n"


@pytest.fixture
def file_set(tmp_path: Path) -> Package:
    folder = tmp_path / "CustomerSupportRouter"
    write_tool(folder, "analyze_request.py", ANALYZE)
    write_tool(folder, "ClarificationRequest.jsx", "export const ClarificationRequest = () => null;\n")
    for stem, body in FILE_SET.items():
        (folder / f"{stem}.json").write_text(json.dumps(body), encoding="utf-8")
    return load_package(folder)


@pytest.mark.design("D4-36", "D4-39", "D4-47", "D4-49", "D4-55", "D4-59", "D4-70")
def test_every_field_of_the_file_set_is_read(file_set: Package) -> None:
    router, orchestrator = file_set.agents["RouterAgent"], file_set.orchestrator
    [tool] = file_set.tools

    assert file_set.findings == ()
    assert (orchestrator.workflow_name, orchestrator.initial_agent) == ("CustomerSupportRouter", "RouterAgent")
    assert (orchestrator.limits.max_turns, orchestrator.initial_message) == (30, "Where is my invoice?")
    assert router.system_message == "\n\n".join(f"{each['heading']}\n{each['content']}" for each in SECTIONS)
    assert (router.max_consecutive_auto_reply, router.structured_outputs_required) == (20, True)
    assert router.auto_tool_mode
    assert (tool.agents, tool.function, tool.description) == (("RouterAgent",), "analyze_request", "Keeps the domain")
    assert (tool.kind, tool.auto_invoke) == ("Agent_Tool", True)
    assert file_set.variables["support_mail"].source == EnvSource("SUPPORT_MAIL")
    assert file_set.variables["support_mail"].default == "help@acme"
    assert file_set.exposures["FinanceSpecialist"] == ("support_mail", "current_domain")


@pytest.mark.design("D1-33", "D1-69", "D2-4", "D4-19", "D4-21", "D4-72", "D4-75")
async def test_the_file_set_is_a_workflow_that_runs(file_set: Package, tmp_path: Path) -> None:
    answers = {"answers": {"RouterAgent": [{"text": json.dumps(ANALYSIS)}]}, "default": {"text": "It is on its way."}}
    chat = Chat(
        build_chat(file_set, answers, tmp_path / "p"), {"current_domain": "unknown", "support_mail": "help@acme"}
    )
    asked: list[str] = []
    ask = chat.built.agents["FinanceSpecialist"].ask

    async def record_question(question: str, *, stream: Any, prompt: tuple[str, ...]) -> Any:
        asked.extend([question, *prompt])
        return await ask(question, stream=stream, prompt=prompt)

    chat.built.agents["FinanceSpecialist"].ask = record_question  # type: ignore[method-assign,assignment]  # -- a listener in its place

    outcome, recorder = await chat.run()

    assert (outcome.kind, recorder.speakers) == (OutcomeKind.COMPLETED, ["RouterAgent", "FinanceSpecialist"])
    assert recorder.context(1)["current_domain"] == "finance"
    assert asked[0].startswith(f"[RouterAgent]: {json.dumps(ANALYSIS)}")
    assert asked[2] == "[CONTEXT VARIABLES]\nsupport_mail: help@acme\ncurrent_domain: finance"
