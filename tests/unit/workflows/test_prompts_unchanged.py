"""Requests to models: unchanged, byte for byte, for packages without new features.

`REQUESTS` holds a digest of each request. Write it again only after a change of packages or of their answers:
`.venv/bin/python -m tests.unit.workflows.test_prompts_unchanged`.
"""

import asyncio
import copy
import hashlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, build_chat
from tests.unit.workflows.packages import ORCHESTRATOR, rule, write_package
from workflows.package.files.data_files import read_data_file
from workflows.package.loader import load_package

REQUESTS = Path(__file__).with_name("requests.json")
PATTERNS = Path(__file__).parents[2] / "patterns"
LIBRARY = Path(__file__).parents[3] / "workflows" / "library"
PACKAGES = {folder.name: folder for root in (PATTERNS, LIBRARY) for folder in root.iterdir() if folder.is_dir()}
# Braces without a name that the agent sees: JSON, code, a hook's placeholders, an unexposed variable.
BRACES = """Answer with {"stage": {"name": 1}} or {x, y}; never {{PATTERN_GUIDANCE}}, {0}, {stage.name}, ${HOME}.
```python
print(f"{tier} {{tier}} ${tier}")
```
{order_id} of {{order_id}} and ${order_id}; {unknown}."""
INPUTS = {"order_id": {"type": "string", "default": "o-7"}}


def braces(folder: Path) -> Path:
    agents = [{"name": "A", "system_message": BRACES}, {"name": "B", "system_message": "You are B."}]
    return write_package(
        folder / "Braces",
        orchestrator={**ORCHESTRATOR, "inputs": INPUTS},
        agents={"agents": agents},
        context_variables={
            "definitions": {"tier": {"type": "string", "source": {"type": "static", "value": "gold"}}},
            "agents": {"A": ["tier", "app_id"]},
        },
        handoffs={"handoff_rules": [rule("A", "B", "When the user wants more", condition_type="string_llm")]},
    )


async def requests_of(folder: Path, workspace: Path) -> list[str]:
    package = load_package(folder)
    chat = Chat(build_chat(package, answers_for(folder), workspace), context_of(package))
    asked: list[str] = []
    for agent in chat.built.agents.values():
        client = agent.config.create()._metered  # type: ignore[union-attr]  # -- the metered client's inside
        if not isinstance(client._inner, ListeningClient):
            client._inner = ListeningClient(client._inner, asked)
    await chat.run()
    return asked


def answers_for(folder: Path) -> Mapping[str, Any]:
    """Returns the answers of the package or its library, without delays."""
    file = next((each for each in (folder / "answers.yaml", folder.parent / "answers.yaml") if each.exists()), None)
    if file is None:
        return {"default": {"text": "done"}}
    answers: dict[str, Any] = read_data_file(file)
    for entry in (each for entries in answers["answers"].values() for each in entries):
        entry.pop("delay_s", None)
    return answers


def context_of(package: Any) -> Mapping[str, Any]:
    values = {name: spec.get("default") for name, spec in package.orchestrator.inputs.items()}
    values |= {each.name: copy.deepcopy(each.default) for each in package.variables.values()}
    return {"app_id": "acme", "chat_id": "run_1", **values}


class ListeningClient:
    def __init__(self, inner: Any, requests: list[str]) -> None:
        self._inner, self._asked = inner, requests

    async def __call__(self, messages: Any, context: Any, **request: Any) -> Any:
        events = [[type(each).__name__, str(each)] for each in messages]
        schema = request.get("response_schema")
        shown = [
            list(context.prompt),
            [[name, content_of(each)] for (name, _), each in zip(events, messages, strict=True)],
            [str(each) for each in request.get("tools", ())],
            None if schema is None else [schema.name, schema.json_schema, schema.system_prompt],
        ]
        self._asked.append(json.dumps(shown, default=str, sort_keys=True))
        return await self._inner(messages, context, **request)


def content_of(event: Any) -> str:
    if hasattr(event, "parts"):
        return "".join(str(part.content) for part in event.parts)
    calls = getattr(getattr(event, "tool_calls", None), "calls", ())
    results = [str(each.result.parts) for each in getattr(event, "results", ())]
    return json.dumps([getattr(event, "content", None), [[c.name, c.arguments] for c in calls], results], default=str)


def digests(requests: list[str]) -> list[str]:
    return [hashlib.sha256(each.encode()).hexdigest()[:16] for each in requests]


@pytest.mark.parametrize("name", [*sorted(PACKAGES), "Braces"])
async def test_requests_to_models_are_as_before(name: str, tmp_path: Path) -> None:
    folder = PACKAGES.get(name) or braces(tmp_path)

    asked = await requests_of(folder, tmp_path / "workspace")

    expected = json.loads(REQUESTS.read_text(encoding="utf-8"))[name]
    changed = [text for text, digest in zip(asked, digests(asked), strict=True) if digest not in expected]
    assert changed == []
    assert digests(asked) == expected


async def write_requests() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        root = Path(temporary)
        folders = {**PACKAGES, "Braces": braces(root)}
        found = {name: digests(await requests_of(folders[name], root / name)) for name in sorted(folders)}
    REQUESTS.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    asyncio.run(write_requests())
