"""What benchmarks/chat.py compares: our conversation over a package, and bare loops over `Agent.ask`.

All hold the same chat: Reader (who calls a tool), Writer and Closer take turns, six in all, eight model calls; some
variables are shown, one is counted up by the tool, two are derived, and the chat ends where an expression says so.
"""

import json
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml
from ag2 import Agent, tool
from ag2.config import LLMClient, ModelConfig, OpenAIConfig
from ag2.events import BaseEvent, ModelRequest, ModelResponse, TextInput, Usage
from ag2.stream import MemoryStream

from accounting.usage import ModelCall
from workflows.chat.agents.built_packages import BuiltPackage, build_package
from workflows.chat.chat_loop import close_conversation, run_conversation
from workflows.chat.chat_state import Conversation
from workflows.chat.history.checkpoint import Checkpoint
from workflows.chat.history.transcript import Turn
from workflows.chat.model_call.fast_stream import FastStream
from workflows.chat.model_call.metered_client import RunMeter
from workflows.chat.package_code.tool_threads import ToolThreads
from workflows.chat.providers.connections import pooled_client
from workflows.chat.providers.model_registry import ModelRegistry
from workflows.context.context_variables import ContextVariables
from workflows.context.redaction import Redactor
from workflows.models_file import OpenAIModel
from workflows.outcome import OutcomeKind
from workflows.package.loader import load_package

TURNS = 6
OPENING = "Look at the orders of this week."
LOREM = "Say what you know, ask for what you need, and hand over when you are done. " * 6
PROMPTS = {name: f"[{name.upper()}] You are {name}. {LOREM}" for name in ("Reader", "Writer", "Closer")}
EXPOSED = {"Reader": ["region", "customer"], "Writer": ["region", "notes"], "Closer": ["notes", "read", "written"]}
CONTEXT: dict[str, Any] = {
    "region": "eu",
    "customer": {"name": "Ada", "orders": [1, 2, 3]},
    "notes": 0,
    "read": False,
    "written": False,
    **{f"fact_{number}": f"what is known, number {number}" for number in range(8)},
}
TOOL = '''
async def note(text: str, context_variables) -> str:
    """Keeps what was seen."""
    context_variables.set("notes", context_variables.get("notes", 0) + 1)
    return f"noted {len(text)} characters"
'''

HIDDEN = Redactor(f"secret-{number}-of-this-machine" for number in range(5))  # as every worker has some

RunOnce = Callable[[], Awaitable[None]]


@dataclass
class RecordedCalls:
    """What a worker would make durable, and no more of it than its size."""

    usage: list[Any] = field(default_factory=list)
    sizes: list[int] = field(default_factory=list)

    async def record(self, call: ModelCall) -> None:
        self.usage.append(call)

    async def commit(self, number: int, turn: Turn, checkpoint: Checkpoint) -> None:
        assert number == len(checkpoint.turns)
        self.sizes.append(len(json.dumps(turn.as_document())) + len(json.dumps(checkpoint.progress())))


def build_our_engine(url: str, folder: Path, calls: RecordedCalls) -> RunOnce:
    models = ModelRegistry({"default": OpenAIModel(provider="openai", model="stub-1", base_url=url)}, lambda key: key)
    built = build_package(load_package(write_package(folder)), models, ToolThreads(4))

    async def run() -> None:
        chat = conversation(built, calls)
        outcome = await close_conversation(
            chat, await run_conversation(chat, save_turn=calls.commit, should_stop=lambda: False)
        )
        assert outcome.kind is OutcomeKind.COMPLETED, outcome
        assert len(chat.turns) == TURNS

    return run


def conversation(built: BuiltPackage, calls: RecordedCalls) -> Conversation:
    facts = {"run_id": "run_1", "app_id": "acme", "workflow_name": "Weekly"}
    return Conversation(
        built_package=built,
        context=ContextVariables({**CONTEXT, **facts}),
        suppressed_names=frozenset(),
        meter=RunMeter(calls.record),
        opening_message=OPENING,
        fixed_values=facts,
        redactor=HIDDEN,
    )


def write_package(folder: Path) -> Path:
    def derived(agent: str) -> dict[str, Any]:
        trigger = {"type": "agent_text", "agent": agent, "match": {"contains": "counted"}}
        return {"source": {"type": "derived", "default": False, "triggers": [trigger]}}

    def after_work(source: str, target: str) -> dict[str, str]:
        return {"source_agent": source, "target_agent": target, "handoff_type": "after_work"}

    state = {name: {"source": {"type": "state", "default": value}} for name, value in CONTEXT.items()}
    ends = {**after_work("Closer", "terminate"), "handoff_type": "condition", "condition": "${notes} == 2"}
    files: dict[str, Any] = {
        "orchestrator": {"workflow_name": "Weekly", "initial_agent": "Reader", "max_turns": 20},
        "agents": {"agents": [{"name": name, "system_message": text} for name, text in PROMPTS.items()]},
        "tools": {"tools": [{"agent": "Reader", "file": "note.py", "function": "note"}]},
        "context_variables": {
            "definitions": {**state, "read": derived("Reader"), "written": derived("Writer")},
            "agents": {name: {"variables": names} for name, names in EXPOSED.items()},
        },
        "handoffs": {
            "handoff_rules": [
                {**ends, "condition_type": "expression"},
                after_work("Reader", "Writer"),
                after_work("Writer", "Closer"),
                after_work("Closer", "Reader"),
            ]
        },
    }
    (folder / "tools").mkdir(parents=True)
    (folder / "tools" / "note.py").write_text(TOOL)
    for stem, body in files.items():
        (folder / f"{stem}.yaml").write_text(yaml.safe_dump(body, sort_keys=False))
    return folder


def build_bare_engine(url: str, stream: type[MemoryStream], calls: RecordedCalls) -> RunOnce:
    http = pooled_client(120)
    config = OneClient(
        OpenAIConfig(
            model="stub-1", base_url=url, api_key="none", http_client=http, timeout=http.timeout, max_retries=0
        ),
        calls,
    )
    agents = {name: Agent(name, config=config, tools=[note] if name == "Reader" else []) for name in PROMPTS}

    async def run() -> None:
        assert await bare_loop(agents, stream) == TURNS

    return run


async def bare_loop(agents: dict[str, Agent], stream_class: type[MemoryStream]) -> int:
    """No package, no guards, no record of turns: what nobody can do with less."""
    context = dict(CONTEXT)
    _context.set(context)
    turns: list[tuple[str, str, list[BaseEvent]]] = []
    agent = "Reader"
    while agent != "terminate":
        shown = "\n".join(f"{name}: {context[name]}" for name in EXPOSED[agent])
        history: list[BaseEvent] = [ModelRequest([TextInput(OPENING)])]
        for speaker, text, events in turns:
            history += events if speaker == agent else [ModelRequest([TextInput(f"[{speaker}]: {text}")])]
        asked = history.pop()
        stream = stream_class()
        await stream.history.replace(history)
        assert isinstance(asked, ModelRequest)
        reply = await agents[agent].ask(*asked.parts, stream=stream, prompt=(PROMPTS[agent], shown))
        said = reply.body or ""
        turns.append((agent, said, list(await stream.history.get_events())[len(history) + 1 :]))
        context["read"] |= agent == "Reader" and "counted" in said
        context["written"] |= agent == "Writer" and "counted" in said
        ends = agent == "Closer" and context["notes"] == 2
        agent = "terminate" if ends else {"Reader": "Writer", "Writer": "Closer", "Closer": "Reader"}[agent]
    return len(turns)


_context: ContextVar[dict[str, Any]] = ContextVar("context")


@tool
async def note(text: str) -> str:
    """Keeps what was seen."""
    _context.get()["notes"] += 1
    return f"noted {len(text)} characters"


class RecordingClient(LLMClient):
    def __init__(self, inner: LLMClient, calls: RecordedCalls) -> None:
        self._inner = inner
        self._calls = calls

    async def __call__(self, *request: Any, **options: Any) -> ModelResponse:
        usage = Usage()
        try:
            response = await self._inner(*request, **options)
            usage = response.usage
        finally:
            self._calls.usage.append(usage)
        return response


class OneClient(ModelConfig):
    def __init__(self, config: ModelConfig, calls: RecordedCalls) -> None:
        self._config = config
        self._client = RecordingClient(config.create(), calls)

    @property
    def provider(self) -> Any:
        return self._config.provider

    @property
    def model(self) -> str:
        return self._config.model

    def copy(self) -> "OneClient":
        return self

    def create(self) -> LLMClient:
        return self._client

    def create_files_client(self) -> Any:
        return self._config.create_files_client()


def engine(name: str, url: str, folder: Path, calls: RecordedCalls) -> RunOnce:
    if name == "unattended":
        return build_our_engine(url, folder, calls)
    return build_bare_engine(url, FastStream if name == "bare b2" else MemoryStream, calls)
