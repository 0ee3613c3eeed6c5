"""Hooks: their arguments, their changes, and a turn in which one of them fails."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, build_chat
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule, write_tool
from workflows.chat.chat_state import ChatTimeouts, live_turn
from workflows.context.redaction import Redactor
from workflows.outcome import OutcomeKind

A_TO_B = {"handoff_rules": [rule("A", "B"), rule("B", "terminate", termination_reason="all said")]}
STAYING = {"handoff_rules": [rule("A", "A")]}
ANSWERS = {"answers": {"A": [{"text": "from A"}, {"text": "again"}], "B": [{"text": "from B"}]}}
STATE, LAST = "update_agent_state", "process_last_received_message"
ALL, SEND = "process_all_messages_before_reply", "process_message_before_send"


@dataclass
class RecordedRequest:
    prompt: tuple[str, ...]
    question: str
    history: str


def hook(kind: str, function: str, agent: str = "A") -> dict[str, Any]:
    return {"hook_type": kind, "hook_agent": agent, "filename": "own.py", "function": function}


def chat(folder: Path, code: str, *hooks: dict[str, Any], **files: Any) -> Chat:
    write_tool(folder, "own.py", code)
    package = load(folder, **{"hooks": {"hooks": list(hooks)}, "handoffs": A_TO_B, **files})
    assert not package.is_refused, package.findings
    return Chat(build_chat(package, ANSWERS, folder))


def record_requests(chat: Chat, agent: str = "A") -> list[RecordedRequest]:
    """Records the agent's requests, as AG2 gets them."""
    asked: list[RecordedRequest] = []
    ask = chat.built.agents[agent].ask

    async def asking(question: str, *, stream: Any, prompt: tuple[str, ...]) -> Any:
        asked.append(RecordedRequest(prompt, question, str(await stream.history.get_events())))
        return await ask(question, stream=stream, prompt=prompt)

    chat.built.agents[agent].ask = asking  # type: ignore[method-assign,assignment]  # -- a listener in its place
    return asked


FORMS = {
    "update": "agent.update_system_message(agent.system_message + ' Be kind.')",
    "attribute": "agent.system_message += ' Be kind.'",
    "private": "agent._system_message = getattr(agent, '_system_message', '') + ' Be kind.'",
    "in the list of AG2": "agent._oai_system_message[0]['content'] += ' Be kind.'",
}


@pytest.mark.design("D4-17")
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
async def test_an_agents_system_message_is_what_this_turn_is_asked_with(tmp_path: Path, form: str) -> None:
    kind = chat(tmp_path, f"def f(agent, messages):\n    {form}\n", hook(STATE, "f"), handoffs=STAYING)
    asked = record_requests(kind)

    await kind.run()

    assert [each.prompt[0] for each in asked[:2]] == ["You are A. Be kind."] * 2


async def test_prompt_middleware_is_a_hook_of_every_named_agent(tmp_path: Path) -> None:
    code = "async def f(agent, messages, run_context=None):\n    agent.update_system_message('For ' + agent.name)\n"
    middleware = {"prompt_middleware": [{"agent": "all", "filename": "own.py", "function": "f"}]}
    both = chat(tmp_path, code, hooks=None, middleware=middleware)
    asked = record_requests(both, "A"), record_requests(both, "B")

    await both.run()

    assert [each.prompt for [each] in asked] == [("For A",), ("For B",)]


async def test_hooks_are_called_in_file_order_and_see_the_ones_before(tmp_path: Path) -> None:
    code = "\n".join(f"def f{n}(agent):\n    agent.system_message += '{n}'\n    agent.mine = {n}\n" for n in (1, 2))
    code += "def last(agent):\n    agent.system_message += f' {agent.mine}'\n"
    hooks = [hook(STATE, "f2"), hook(STATE, "f1", "all"), hook(STATE, "f2"), hook(STATE, "last")]
    ordered = chat(tmp_path, code, *hooks)
    asked = record_requests(ordered)

    await ordered.run()

    assert asked[0].prompt == ("You are A.212 2",)


async def test_a_hook_reads_and_writes_the_live_context_and_the_prompt_shows_it(tmp_path: Path) -> None:
    code = """
def f(agent, messages):
    assert agent._context_variables is agent.context_variables
    agent.context_variables.set("topic", agent.context_variables.get("given") + "!")
    agent.context_variables = {"key": "canary", "asked": [each["content"] for each in messages]}
"""
    variables = {
        "definitions": {name: {"type": "string", "source": {"type": "state"}} for name in ("topic", "given", "key")},
        "agents": {"A": ["topic", "key"]},
    }
    writing = chat(tmp_path, code, hook(STATE, "f"), context_variables=variables)
    writing.context, writing.suppressed = {"given": "ships"}, frozenset({"key"})
    asked = record_requests(writing)

    _, kept = await writing.run()

    assert "ships!" in asked[0].prompt[1]
    assert "canary" not in asked[0].prompt[1]
    assert kept.turn(1).context_changes == {"topic": "ships!", "asked": ["Begin."]}


async def test_a_hook_may_replace_the_message_that_asks(tmp_path: Path) -> None:
    code = """
def f(content, sender):
    return f"{sender.name} said: {content}"

def more(content):
    return [{"type": "text", "text": content}, {"type": "text", "text": "Hurry."}]

def nothing(content):
    return None
"""
    replaced = chat(tmp_path, code, *(hook(LAST, each, "B") for each in ("f", "nothing", "more")))
    asked = record_requests(replaced, "B")

    _, kept = await replaced.run()

    assert asked[0].question == "[A]: A said: from A\nHurry."
    assert kept.turn(1).text == "from A"


async def test_an_agent_without_a_new_message_is_asked_to_go_on(tmp_path: Path) -> None:
    staying = chat(tmp_path, "def f(content): return content + ' Please.'\n", hook(LAST, "f"), handoffs=STAYING)
    asked = record_requests(staying)

    await staying.run()

    assert [each.question for each in asked[:2]] == ["Begin. Please.", "Go on. Please."]
    assert "from A" in asked[1].history


async def test_a_hook_may_change_all_messages(tmp_path: Path) -> None:
    code = """
def f(messages):
    return [{"role": "system", "content": "Earlier."}, *messages[-1:]]

def in_place(messages):
    messages.append({"role": "user", "content": "Answer!"})
"""
    changed = chat(tmp_path, code, hook(ALL, "f", "B"), hook(ALL, "in_place", "B"))
    asked = record_requests(changed, "B")

    await changed.run()

    assert asked[0].question == "Answer!"
    assert "Earlier." in asked[0].history
    assert "Begin." not in asked[0].history


async def test_an_agents_message_is_changed_in_ag2s_order(tmp_path: Path) -> None:
    code = "def {}(agent=None, messages=None, content=None):\n    SEEN.append({!r})\n"
    code = "SEEN = []\n" + "".join(code.format(each, each) for each in (STATE, LAST, ALL))
    ordered = chat(tmp_path, code, *(hook(kind, kind) for kind in (ALL, LAST, STATE)))

    await ordered.run()

    seen = next(each for each in ordered.built.hooks["A"]).function.__globals__["SEEN"]
    assert seen == [STATE, LAST, ALL]


@pytest.mark.design("D4-17")
@pytest.mark.parametrize(
    ("returned", "text"),
    [
        ("message.upper()", "FROM A"),
        ("{'content': message + '!', 'role': 'x'}", "from A!"),
        ("None", "from A"),
        ("{'content': None}", "from A"),
        ("f'{sender.name} to {recipient.name}, silent: {silent}'", "A to chat_manager, silent: False"),
    ],
)
async def test_a_reply_is_what_its_hooks_make_of_it(tmp_path: Path, returned: str, text: str) -> None:
    changed = chat(tmp_path, f"def f(sender, message, recipient, silent):\n    return {returned}\n", hook(SEND, "f"))
    asked = record_requests(changed, "B")

    _, kept = await changed.run()

    assert kept.turn(1).text == text
    assert asked[0].question == f"[A]: {text}"


async def test_states_follow_the_reply_as_the_hooks_left_it(tmp_path: Path) -> None:
    says = {"type": "agent_text", "agent": "A", "match": {"equals": "DONE"}}
    variables = {"definitions": {"done": {"type": "boolean", "source": {"type": "state", "triggers": [says]}}}}

    _, kept = await chat(
        tmp_path, "def f(message): return 'DONE'\n", hook(SEND, "f"), context_variables=variables
    ).run()

    assert kept.context(1)["done"] is True


async def test_what_hooks_leave_is_without_hidden_values(tmp_path: Path) -> None:
    code = """
def state(agent):
    agent.system_message += " secret-value"

def last(content):
    return content + " secret-value"

def send(message):
    return message + " secret-value"
"""
    spoiled = chat(tmp_path, code, hook(STATE, "state"), hook(LAST, "last"), hook(SEND, "send"))
    spoiled.redactor = Redactor(["secret-value"])
    asked = record_requests(spoiled)

    _, kept = await spoiled.run()

    assert (asked[0].prompt, asked[0].question) == (("You are A. (hidden)",), "Begin. (hidden)")
    assert kept.turn(1).text == "from A (hidden)"
    assert "secret-value" not in kept.saved[0]


@pytest.mark.parametrize("kind", [LAST, ALL])
async def test_a_hidden_value_of_any_hook_is_gone_before_a_cut(tmp_path: Path, kind: str) -> None:
    code = """
known = {}

def keep(agent):
    known["agent"] = agent

def leak(_):
    known["agent"].context_variables["note"] = "x" * (200 - 7) + "secret-value"
"""
    rules = [
        {**rule("A", "B", "When ${note} is long"), "condition_type": "string_llm"},
        *A_TO_B["handoff_rules"],
    ]
    noted = {"definitions": {"note": {"source": {"type": "state", "default": ""}}}, "agents": {"A": ["note"]}}
    files = {"handoffs": {"handoff_rules": rules}, "context_variables": noted}
    spoiled = chat(tmp_path, code, hook(STATE, "keep"), hook(kind, "leak"), **files)
    spoiled.redactor = Redactor(["secret-value"])
    described: list[str] = []
    ask = spoiled.built.agents["A"].ask

    async def asking(*arguments: Any, **keywords: Any) -> Any:
        described.extend(each.description for each in live_turn().transfers.values())
        return await ask(*arguments, **keywords)

    spoiled.built.agents["A"].ask = asking  # type: ignore[method-assign]  # -- a listener in its place

    await spoiled.run()

    assert len(described) == 1
    assert "secret" not in described[0]


FAULTS = [
    (STATE, "raise ValueError('no')", "ValueError: no"),
    (STATE, "raise SystemExit(3)", "SystemExit: 3"),
    (STATE, "import asyncio; raise asyncio.CancelledError", "it cancelled itself"),
    (STATE, "args[0].system_message = 5", "the system message is of type int, where text is needed"),
    (STATE, "del args[0]._oai_system_message[:]", "the agent no longer has a system message"),
    (STATE, "args[1][:] = ['x']", "message 1 is of type str"),
    (LAST, "return 5", "what it returns is of type int, where text is needed"),
    (ALL, "return 'text'", "its result is of type str, where a list of messages is needed"),
    (ALL, "return args", "its result is of type tuple, where a list"),
    (SEND, "return ['x', 5]", "what it returns has a part that is no text"),
    (SEND, "raise KeyError('x')", "KeyError: 'x'"),
]


@pytest.mark.parametrize(("kind", "body", "why"), FAULTS)
@pytest.mark.parametrize("form", ["def", "async def"])
async def test_a_failing_hook_fails_the_run_and_names_the_place(
    tmp_path: Path, kind: str, body: str, why: str, form: str
) -> None:
    failing = chat(tmp_path, f"{form} f(*args, **kwargs):\n    {body}\n", hook(kind, "f", "B"))

    outcome, kept = await failing.run()

    assert outcome.kind is OutcomeKind.TOOL_ERROR
    assert outcome.reason.startswith(f"{kind} own.py:f of agent B in turn 2 failed: {why}")
    assert outcome.error is not None
    assert (outcome.error.agent, outcome.error.turn) == ("B", 2)
    assert kept.speakers == ["A"]
    assert failing.last is not None
    [incident] = failing.last.incidents
    assert (incident.where, incident.agent, incident.turn) == (f"{kind} own.py:f", "B", 2)
    json.dumps(incident.as_document()).encode()


async def test_a_hook_that_hangs_fails_the_run(tmp_path: Path) -> None:
    code = "import asyncio\nasync def f(agent): await asyncio.sleep(99)\n"
    hanging = chat(tmp_path, code, hook(STATE, "f"))
    hanging.timeouts = ChatTimeouts(step_s=0.05)

    outcome, _ = await hanging.run()

    assert outcome.reason.startswith(f"{STATE} own.py:f of agent A in turn 1 failed: it took longer than 0.05")


async def test_an_object_that_refuses_to_be_read_is_a_failure_of_its_hook(tmp_path: Path) -> None:
    code = """
class Odd(dict):
    def get(self, *_):
        raise OSError("unreadable")

def f(messages):
    return [Odd()]
"""
    outcome, _ = await chat(tmp_path, code, hook(ALL, "f")).run()

    assert outcome.reason == f"{ALL} own.py:f of agent A in turn 1 failed: OSError: unreadable (tools/own.py:4, in get)"


async def test_runs_at_once_do_not_share_an_agent(tmp_path: Path) -> None:
    """Agents are built once for all runs, but a hook's attributes are not shared."""
    code = """
def f(agent):
    agent.system_message += "+"
    agent.seen = getattr(agent, "seen", 0) + 1
    assert agent.seen == 1
"""
    shared = chat(tmp_path, code, hook(STATE, "f"), orchestrator={**ORCHESTRATOR, "max_turns": 1})
    asked = record_requests(shared)

    for _ in range(2):
        outcome, _ = await shared.run()
        assert outcome.kind is OutcomeKind.MAX_TURNS

    assert [each.prompt for each in asked] == [("You are A.+",)] * 2
