"""An HTTP server with the chat completions API, which answers each shipped agent from `answers.yaml`.

The prompt identifies the agent, and the tool results in the request its progress.
"""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import yaml

from tests.integration.model_server import Answer, ModelServer, call, completion, model_server, usage
from workflows.package.catalog import LIBRARY
from workflows.package.loader import load_package

USAGE = usage(420, 40, cached=128)


@contextmanager
def sensible_model() -> Iterator[ModelServer]:
    served: list[ModelServer] = []
    answers = yaml.safe_load((LIBRARY / "answers.yaml").read_text(encoding="utf-8"))["answers"]
    prompts = dict(_prompts())

    def plan(number: int) -> Answer:
        messages = served[0].requests[number]["messages"]
        system_text = "\n".join(str(each["content"]) for each in messages if each["role"] in ("system", "developer"))
        agent = next((name for name, prompt in prompts.items() if prompt in system_text), None)
        if agent is None:
            return completion("Done.", usage=USAGE)
        results = sum(each["role"] == "tool" for each in messages)
        return _completion(answers[agent][min(results, len(answers[agent]) - 1)])

    with model_server(plan) as server:
        served.append(server)
        yield server


def _prompts() -> Iterator[tuple[str, str]]:
    """Map the unique first line of each agent's prompt to the agent."""
    for folder in sorted(each for each in LIBRARY.iterdir() if (each / "agents.yaml").is_file()):
        for agent in load_package(folder).agents.values():
            prompt = agent.system_message
            yield agent.name, max(prompt.splitlines(), key=len)


def _completion(entry: dict[str, Any]) -> Answer:
    calls = [call(each["name"], json.dumps(each["arguments"])) for each in entry.get("tool_calls", ())]
    return completion(entry.get("text"), tool_calls=calls or None, usage=USAGE)
