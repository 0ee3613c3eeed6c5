"""Workflows that ask models in every way there is: plain, streamed, without usage, in tool loops and in sub-tasks."""

from collections.abc import Mapping
from typing import Any

from tests.chaos.auditing_model import SLEEPER
from tests.chaos.auditing_replies import QUIET
from tests.integration.stage import Stage, relay

MODELS: Mapping[str, Mapping[str, Any]] = {
    "default": {"provider": "openai", "model": "m-whole"},
    "streamed": {"provider": "openai", "model": "m-streamed", "stream": True},
    "responses": {"provider": "openai_responses", "model": "m-responses"},
    "quiet": {"provider": "openai", "model": QUIET},
}
# Agents in the order in which they speak, with the models that they ask.
WORKFLOWS = {
    "Relay": {"Ann": "default", "Bob": "streamed", "Cid": "responses", "Dan": "quiet"},
    "Tools": {"Eva": "streamed", "Fay": "responses"},
    "Team": {"Gus": "default", "Hal": "streamed"},
    "Slow": {"Ida": "default", SLEEPER: "streamed"},
}
TOOLS = {"Eva": "note", "Fay": "note", "Hal": "delegate"}

NOTE = """
def note(number: int):
    return f"noted {number}"
"""
# AG2's sub-tasks, on the model of the agent whose tool it is. The format has no way to ask for them, so it goes in by
# the back door.
DELEGATE = """
import sys

from ag2 import Agent
from ag2.agent import TaskConfig


async def delegate(about: str, **runtime):
    live = sys.modules["workflows.chat.chat_state"].live_turn()
    agent_name = runtime["agent_name"]
    prompt = f"You are {agent_name}. {runtime['run_id']}."
    config = live.chat.built_package.agents[agent_name].config
    helper = Agent("helper", prompt=prompt, config=config, tasks=TaskConfig(prompt=prompt))
    reply = await helper.ask(about)
    return reply.body
"""


def accounted_workflows(stage: Stage, url: str) -> None:
    stage.models({alias: {**model, "base_url": url, "timeout": "30s"} for alias, model in MODELS.items()})
    for name, agents in WORKFLOWS.items():
        stage.package(name, _package(name, agents))


def _package(name: str, agents: dict[str, str]) -> dict[str, Any]:
    """Prompts name the run: so the server knows who asks."""
    package = relay(name, [*agents])
    for agent in package["agents"]["agents"]:
        agent["model"] = agents[agent["name"]]
    package["context_variables"] = {
        "definitions": {},
        "agents": {agent: {"variables": ["run_id"]} for agent in agents},
    }
    tools = [
        {"agent": agent, "file": f"{tool}.py", "function": tool} for agent, tool in TOOLS.items() if agent in agents
    ]
    if tools:
        package["tools"] = {"tools": tools}
        package |= {"tools/note.py": NOTE, "tools/delegate.py": DELEGATE}
    return package
