"""Chats in process, with the script provider: speakers, checkpoints and ends."""

import asyncio
import copy
import json
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from accounting.usage import ModelCall
from tests.unit.workflows.chats import THREADS, Chat, ChatRecorder, build_chat, never
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule, write_tool
from workflows.chat.agents.built_packages import BuiltPackage, PackageCache
from workflows.chat.chat_errors import PackageChanged, PackageDefect
from workflows.chat.chat_loop import run_conversation
from workflows.chat.providers.model_registry import ModelRegistry
from workflows.context.context_variables import ContextVariables
from workflows.context.redaction import Redactor
from workflows.models_file import ScriptModel
from workflows.outcome import Outcome, OutcomeKind
from workflows.package.catalog import LIBRARY
from workflows.package.loader import load_package

A_TO_B = {"handoff_rules": [rule("A", "B"), rule("B", "terminate", termination_reason="all said")]}
ROUND = {"handoff_rules": [rule("A", "B"), rule("B", "A")]}


def chat(folder: Path, answers: Any = None, *, context: dict[str, Any] | None = None, **files: Any) -> Chat:
    package = load(folder, **files)
    assert not package.is_refused, package.findings
    return Chat(
        build_chat(package, answers or {"default": {"text": "ok", "usage": {"input": 3, "output": 1}}}, folder),
        context or {},
    )


def shipped_chat(name: str, folder: Path, /, **context: Any) -> Chat:
    package = load_package(LIBRARY / name)
    defaults = {each.name: copy.deepcopy(each.default) for each in package.variables.values()}
    return Chat(build_chat(package, LIBRARY / "answers.yaml", folder), {"app_id": "acme", **defaults, **context})


@pytest.mark.design("D4-72")
async def test_the_daily_digest_is_collected_and_written(tmp_path: Path) -> None:
    outcome, kept = await fast(shipped_chat("DailyDigest", tmp_path, region="eu")).run()

    assert outcome == Outcome(OutcomeKind.COMPLETED, "Writer ends the chat")
    assert kept.speakers == ["Collector", "Writer"]
    assert [turn.handoff for turn in (kept.turn(1), kept.turn(2))] == ["Writer", "terminate"]
    assert kept.turn(1).context_changes["collected"] is True
    assert kept.context(1)["numbers"]["orders"] == 128
    assert [(call.agent, call.number, call.status, call.ok) for call in kept.calls] == [
        ("Collector", 1, "reported", True),
        ("Collector", 2, "reported", True),
        ("Writer", 3, "reported", True),
    ]
    assert kept.turn(1).tokens == {"input": 930, "output": 65}


async def test_an_order_follow_up_is_reviewed_and_written(tmp_path: Path) -> None:
    outcome, kept = await fast(shipped_chat("OrderFollowUp", tmp_path, order_id="1", order={"total": 120})).run()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert kept.speakers == ["Reviewer", "Correspondent"]
    assert kept.context(2)["follow_up_kind"] == "thank_you"


def fast(chat: Chat) -> Chat:
    """Removes the delays of the shipped answers, which are meant for a viewer."""
    for agent in chat.built.agents.values():
        script = agent.config.create()._metered._inner._script  # type: ignore[union-attr]  # -- the metered client's inside
        for entries in (*script.answers.values(), [script.default]):
            for entry in entries:
                entry.pop("delay_s", None)
    return chat


@pytest.mark.parametrize("name", ["DailyDigest", "IssueTriage", "LeadIntake", "OrderFollowUp"])
async def test_a_chat_resumed_from_any_checkpoint_goes_on_where_it_was(tmp_path: Path, name: str) -> None:
    whole = fast(shipped_chat(name, tmp_path, order_id="1", name="Ada", company="", story=""))
    outcome, kept = await whole.run()

    for number in range(len(kept.turns) + 1):
        again, resumed = await whole.run(kept.copy_up_to(number))

        assert again == outcome
        assert resumed.speakers == kept.speakers
        assert [turn.text for turn in resumed.turns] == [turn.text for turn in kept.turns]
        assert {call.agent for call in resumed.calls} == set(kept.speakers[number:])


async def test_a_chat_that_had_ended_calls_no_agent_again(tmp_path: Path) -> None:
    """Its worker died after the last turn was committed and before the release."""
    limited = {**ORCHESTRATOR, "max_turns": 2}
    ending = chat(tmp_path, handoffs=A_TO_B, orchestrator=limited)
    outcome, kept = await ending.run()

    again, resumed = await ending.run(kept.copy_up_to(2))

    assert outcome == again == Outcome(OutcomeKind.COMPLETED, "all said")
    assert resumed.calls == []


async def test_turns_are_limited(tmp_path: Path) -> None:
    outcome, kept = await chat(tmp_path, handoffs=ROUND, orchestrator={**ORCHESTRATOR, "max_turns": 3}).run()

    assert outcome.kind is OutcomeKind.MAX_TURNS
    assert kept.speakers == ["A", "B", "A"]
    assert kept.checkpoint(3).next_agent == "B"


async def test_model_calls_are_limited_and_the_turn_in_flight_is_not_committed(tmp_path: Path) -> None:
    endless = chat(tmp_path, handoffs=ROUND, orchestrator={**ORCHESTRATOR, "limits": {"model_calls": 2}})

    outcome, kept = await endless.run()

    assert outcome.kind is OutcomeKind.LOOP_DETECTED
    assert outcome.error is not None
    assert (outcome.error.agent, outcome.error.turn) == ("A", 3)
    assert (len(kept.calls), kept.speakers) == (2, ["A", "B"])


@pytest.mark.parametrize("text", ["", "  \n"])
async def test_an_empty_answer_is_a_transient_fault_of_the_model(tmp_path: Path, text: str) -> None:
    outcome, kept = await chat(tmp_path, {"answers": {"A": [{"text": text}]}}).run()

    assert (outcome.kind, outcome.transient) == (OutcomeKind.MODEL_ERROR, True)
    assert kept.turns == []
    assert [(call.status, call.ok) for call in kept.calls] == [("missing", False)]


@pytest.mark.parametrize(
    ("status", "transient"), [(425, True), (429, True), (503, True), (529, True), (400, False), (401, False)]
)
async def test_an_error_of_the_model_is_marked_transient_or_not(tmp_path: Path, status: int, transient: bool) -> None:
    error = {"status": status, "retry_after_s": 1}
    outcome, kept = await chat(tmp_path, {"answers": {"A": [{"error": error}]}}).run()

    assert (outcome.kind, outcome.transient, outcome.retry_after_s) == (OutcomeKind.MODEL_ERROR, transient, 1)
    assert outcome.error is not None
    assert (outcome.error.agent, outcome.error.turn) == ("A", 1)
    assert [(call.ok, call.status, call.error) for call in kept.calls] == [(False, "missing", "ModelError")]


async def test_a_stopping_worker_hands_back_between_two_turns(tmp_path: Path) -> None:
    stopping = chat(tmp_path, handoffs=ROUND)
    kept = ChatRecorder()

    outcome, _ = await stopping.run(kept, stopping=lambda: len(kept.turns) == 2)

    assert outcome.kind is OutcomeKind.HANDED_BACK
    assert kept.speakers == ["A", "B"]
    assert kept.checkpoint(2).next_agent == "A"


async def test_a_package_without_routing_is_one_turn(tmp_path: Path) -> None:
    outcome, kept = await chat(tmp_path).run()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert kept.speakers == ["A"]


@pytest.mark.design("D1-49", "D2-5")
async def test_variables_flip_before_the_routing_of_the_same_turn(tmp_path: Path) -> None:
    trigger = {"type": "agent_text", "agent": "A", "match": {"equals": "next"}}
    deriving = chat(
        tmp_path,
        {"answers": {"A": [{"text": "not yet"}, {"text": " NEXT "}]}, "default": {"text": "ok"}},
        context={"ready": False},
        context_variables={
            "definitions": {"ready": {"source": {"type": "derived", "default": False, "triggers": [trigger]}}}
        },
        handoffs={"handoff_rules": [rule("A", "B", "${ready} == true"), rule("A", "A"), rule("B", "terminate")]},
    )

    _, kept = await deriving.run()

    assert kept.speakers == ["A", "A", "B"]
    assert [dict(kept.turn(number).context_changes) for number in (1, 2)] == [{}, {"ready": True}]


@pytest.mark.design("D4-52")
async def test_pre_scope_rules_hand_over_before_an_agent_speaks(tmp_path: Path) -> None:
    skipping = chat(
        tmp_path,
        context={"known": True},
        context_variables={"definitions": {"known": {"source": {"type": "state"}}}},
        handoffs={"handoff_rules": [rule("A", "B", "${known}", condition_scope="pre"), rule("A", "terminate")]},
    )

    _, kept = await skipping.run()

    assert kept.speakers == ["B"]


async def test_pre_scope_rules_in_a_circle_are_a_loop(tmp_path: Path) -> None:
    pre = {"condition_scope": "pre"}
    circle = chat(
        tmp_path,
        handoffs={"handoff_rules": [rule("A", "B", "True or ${x}", **pre), rule("B", "A", "True or ${x}", **pre)]},
    )

    outcome, kept = await circle.run()

    assert outcome.kind is OutcomeKind.LOOP_DETECTED
    assert kept.calls == []


@pytest.mark.parametrize(("human", "kind"), [(False, OutcomeKind.COMPLETED), (True, OutcomeKind.NEEDS_HUMAN)])
async def test_a_hand_off_to_a_person(tmp_path: Path, human: bool, kind: OutcomeKind) -> None:
    asking = chat(
        tmp_path,
        orchestrator={**ORCHESTRATOR, "human_in_the_loop": human},
        handoffs={"handoff_rules": [rule("A", "user")]},
    )

    outcome, kept = await asking.run()

    assert outcome.kind is kind
    assert kept.speakers == ["A"]


@pytest.mark.design("D4-21")
async def test_each_agent_sees_the_others_by_name_and_its_own_turns_as_its_own(tmp_path: Path) -> None:
    answers = {"answers": {"A": [{"text": "a1"}, {"text": "a2"}], "B": [{"text": "b1"}]}}
    asked: list[list[str]] = []
    talking = chat(tmp_path, answers, handoffs=ROUND, orchestrator={**ORCHESTRATOR, "max_turns": 3})
    record_requests(talking, asked)

    await talking.run()

    assert asked == [
        ["ModelRequest: Begin."],
        ["ModelRequest: Begin.", "ModelRequest: [A]: a1"],
        ["ModelRequest: Begin.", "ModelResponse: a1", "ModelRequest: [B]: b1"],
    ]


async def test_an_agent_that_goes_on_is_asked_to(tmp_path: Path) -> None:
    asked: list[list[str]] = []
    alone = chat(tmp_path, handoffs={"handoff_rules": [rule("A", "A")]}, orchestrator={**ORCHESTRATOR, "max_turns": 2})
    record_requests(alone, asked)

    await alone.run()

    assert asked[1] == ["ModelRequest: Begin.", "ModelResponse: ok", "ModelRequest: Go on."]


COUNT = "def count(context_variables):\n    context_variables['n'] += 1\n    return 'counted'\n"


@pytest.mark.design("D1-19", "D1-68")
async def test_only_exposed_variables_are_in_the_prompt_of_every_turn(tmp_path: Path) -> None:
    prompts: list[str] = []
    write_tool(tmp_path, "count.py", COUNT)
    counting = chat(
        tmp_path,
        {"answers": {"A": [{"tool_calls": [{"name": "count"}]}, {"text": "one"}, {"text": "two"}]}},
        context={"n": 1, "hidden": "canary"},
        context_variables={
            "definitions": {name: {"source": {"type": "state"}} for name in ("n", "hidden")},
            "agents": {"A": ["n"]},
        },
        tools=[{"agent": "A", "file": "count.py", "function": "count"}],
        handoffs={"handoff_rules": [rule("A", "A")]},
        orchestrator={**ORCHESTRATOR, "max_turns": 2},
    )  # fmt: skip
    record_requests(counting, [], prompts)

    await counting.run()

    assert prompts == ["You are A.|[CONTEXT VARIABLES]\nn: 1"] * 2 + ["You are A.|[CONTEXT VARIABLES]\nn: 2"]
    assert "canary" not in "".join(prompts)


@pytest.mark.design("D1-64")
async def test_a_prompt_is_filled_anew_in_every_turn_before_its_hooks(tmp_path: Path) -> None:
    prompts: list[str] = []
    write_tool(tmp_path, "count.py", COUNT)
    write_tool(
        tmp_path, "see.py", "def see(agent, messages):\n    agent.update_system_message(agent.system_message + '{n}')\n"
    )
    counting = chat(
        tmp_path,
        {"answers": {"A": [{"tool_calls": [{"name": "count"}]}, {"text": "one"}, {"text": "two"}]}},
        context={"n": 1, "hidden": "canary"},
        agents={"agents": [{"name": "A", "system_message": "n is {n}, {hidden}."}]},
        context_variables={
            "definitions": {name: {"source": {"type": "state"}} for name in ("n", "hidden")},
            "agents": {"A": ["n"]},
        },
        tools=[{"agent": "A", "file": "count.py", "function": "count"}],
        hooks={"prompt_middleware": [{"agent": "A", "filename": "see.py", "function": "see"}]},
        handoffs={"handoff_rules": [rule("A", "A")]},
        orchestrator={**ORCHESTRATOR, "max_turns": 2},
    )  # fmt: skip
    record_requests(counting, [], prompts)

    await counting.run()

    shown = [f"n is {n}, {{hidden}}.{{n}}|[CONTEXT VARIABLES]\nn: {n}" for n in (1, 1, 2)]
    assert prompts == shown


async def test_a_hidden_value_is_stored_nowhere_and_purged_once_a_turn(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    prompts: list[str] = []
    put = (
        "def put(context_variables):\n    context_variables.update(flag='canary-1', note='canary-1', kept='as it is')\n"
    )
    write_tool(tmp_path, "put.py", put)
    putting = chat(
        tmp_path,
        {"answers": {"A": [{"tool_calls": [{"name": "put"}]}, {"text": "it is canary-1"}, {"text": "two"}]}},
        context={"given": "canary-1"},
        context_variables={
            "definitions": {name: {"source": {"type": "state"}} for name in ("given", "note", "kept")},
            "agents": {"A": ["given", "note", "kept"]},
        },
        tools=[{"agent": "A", "file": "put.py", "function": "put"}],
        handoffs={"handoff_rules": [rule("A", "A")]},
        orchestrator={**ORCHESTRATOR, "max_turns": 2},
    )
    putting.suppressed, putting.redactor = frozenset({"flag"}), Redactor(["canary-1"])
    record_requests(putting, [], prompts)

    _, kept = await putting.run()

    first, last = prompts[0], prompts[-1]
    assert first == "You are A.|[CONTEXT VARIABLES]\ngiven: (hidden)"
    assert last == "You are A.|[CONTEXT VARIABLES]\ngiven: (hidden)\nnote: (hidden)\nkept: as it is"
    assert kept.context(1) == {"given": "(hidden)", "note": "(hidden)", "kept": "as it is"}
    assert kept.turn(1).text == "it is (hidden)"
    assert "canary-1" not in "".join([*prompts, *kept.saved])
    purges = [vars(each)["names"] for each in caplog.records if each.getMessage() == "environment_variables_purged"]
    assert purges == [["flag", "given", "note"]]


def record_requests(chat: Chat, requests: list[list[str]], prompts: list[str] | None = None) -> None:
    """Records the model's requests on their way to the script."""
    for agent in chat.built.agents.values():
        client = agent.config.create()._metered  # type: ignore[union-attr]  # -- the metered client's inside
        if isinstance(client._inner, ListeningClient):
            continue
        client._inner = ListeningClient(client._inner, requests, prompts)


class ListeningClient:
    def __init__(self, inner: Any, requests: list[list[str]], prompts: list[str] | None) -> None:
        self._inner, self._asked, self._prompts = inner, requests, prompts

    async def __call__(self, messages: Any, context: Any, **request: Any) -> Any:
        self._asked.append([f"{type(each).__name__}: {text_of(each)}" for each in messages])
        if self._prompts is not None:
            self._prompts.append("|".join(context.prompt))
        return await self._inner(messages, context, **request)


def text_of(event: Any) -> str:
    if hasattr(event, "parts"):
        return "".join(part.content for part in event.parts)
    return str(getattr(event, "content", ""))


WAIT = """
import asyncio

async def wait(context_variables):
    context_variables["reached"].set()
    await asyncio.Event().wait()
"""


@pytest.mark.parametrize(
    ("at", "entry", "recorded"),
    [
        ("tool", {"tool_calls": [{"name": "wait"}]}, [None]),
        ("model", {"text": "late", "delay_s": 60}, ["Cancelled"]),
        ("commit", {"text": "ok"}, [None]),
    ],
)
async def test_a_cancelled_chat_stops_at_once_and_every_call_is_recorded(
    tmp_path: Path, at: str, entry: dict[str, Any], recorded: list[str | None]
) -> None:
    reached, asked_at = asyncio.Event(), asyncio.Event()
    write_tool(tmp_path, "wait.py", WAIT)
    tools = [{"agent": "A", "file": "wait.py", "function": "wait"}]
    waiting = chat(tmp_path, {"answers": {"A": [entry]}}, tools=tools)
    record_requests(waiting, RingingList(asked_at))
    kept = HeldRecorder(reached) if at == "commit" else ChatRecorder()
    conversation = waiting.conversation(kept)
    conversation.context = ContextVariables({"reached": reached})
    task = asyncio.create_task(waiting.take_turns(conversation, kept))
    async with asyncio.timeout(5):
        await (asked_at.wait() if at == "model" else reached.wait())

    task.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 5)
    assert kept.turns == []
    assert [call.error for call in kept.calls] == recorded


class RingingList(list[list[str]]):
    def __init__(self, bell: asyncio.Event) -> None:
        super().__init__()
        self._bell = bell

    def append(self, _asked: list[str], /) -> None:
        self._bell.set()


class HeldRecorder(ChatRecorder):
    def __init__(self, reached: asyncio.Event) -> None:
        super().__init__()
        self._reached = reached

    async def commit(self, *_: Any) -> None:
        self._reached.set()
        await asyncio.Event().wait()


class UnavailableLedger(ChatRecorder):
    async def record(self, _call: ModelCall, /) -> None:
        raise ConnectionError("the ledger is away")


async def test_a_turn_that_cannot_be_stored_names_its_agent_and_the_failure(tmp_path: Path) -> None:
    write_tool(tmp_path, "t.py", "def t():\n    raise ValueError('no')\n")
    tools = [{"agent": "A", "file": "t.py", "function": "t"}]
    answers = {"answers": {"A": [{"tool_calls": [{"name": "t"}]}, {"text": "ok"}]}}
    conversation = chat(tmp_path, answers, tools=tools).conversation(ChatRecorder())

    async def refuse(*_: object) -> None:
        raise PackageDefect("the context is too large")

    outcome = await run_conversation(conversation, save_turn=refuse, should_stop=never)

    assert outcome.error is not None
    assert (outcome.reason, outcome.error.agent, outcome.error.turn) == ("the context is too large", "A", 1)
    assert [each.where for each in conversation.incidents] == ["tool t"]


async def test_a_chat_whose_ledger_is_away_stops_before_the_answer_is_used(tmp_path: Path) -> None:
    kept = UnavailableLedger()

    with pytest.raises(ConnectionError):
        await chat(tmp_path).run(kept)

    assert kept.turns == []


@pytest.mark.design("D4-78")
async def test_chats_of_one_package_at_once_do_not_mix(tmp_path: Path) -> None:
    write_tool(
        tmp_path,
        "put.py",
        "def put(name: str, context_variables):\n    context_variables['name'] = name\n    return name\n",
    )
    package = load(tmp_path, tools=[{"agent": "A", "file": "put.py", "function": "put"}])
    answers = {
        "answers": {
            "A": [{"tool_calls": [{"name": "put", "arguments": {"name": "x"}}], "delay_s": 0.001}, {"text": "done"}]
        }
    }
    shared = build_chat(package, answers, tmp_path)

    results = await asyncio.gather(*(Chat(shared, {"run": number}).run() for number in range(20)))

    assert [kept.context(1) for _, kept in results] == [{"run": number, "name": "x"} for number in range(20)]
    assert all([call.number for call in kept.calls] == [1, 2] for _, kept in results)


async def test_calls_that_failed_before_are_remembered_by_every_later_checkpoint(tmp_path: Path) -> None:
    """Otherwise a script would repeat its error after a resume."""
    busy = {"error": {"status": 429}}
    relay = chat(tmp_path, {"answers": {"A": [busy, {"text": "one"}]}, "default": {"text": "two"}}, handoffs=A_TO_B)

    _, kept = await relay.run(failed={"A": 1})

    assert [kept.checkpoint(number).counters.failed for number in (1, 2)] == [{"A": 1}] * 2


async def test_an_unknown_tool_is_reported_to_the_model_and_the_chat_goes_on(tmp_path: Path) -> None:
    write_tool(tmp_path, "wait.py", WAIT)
    tools = [{"agent": "A", "file": "wait.py", "function": "wait"}]
    answers = {"answers": {"A": [{"tool_calls": [{"name": "nosuch"}]}, {"text": "fine"}]}}
    outcome, kept = await chat(tmp_path, answers, tools=tools).run()

    assert outcome.kind is OutcomeKind.COMPLETED
    assert kept.turn(1).text == "fine"
    [result] = kept.turn(1).events[1]["tool_results"]
    assert (result["text"], result["failed"]) == ("There is no tool nosuch; there are: wait.", True)


async def test_half_a_character_of_a_model_or_a_tool_can_be_kept(tmp_path: Path) -> None:
    write_tool(tmp_path, "half.py", "def half():\n    return 'half \\ud83d'\n")
    (tmp_path / "answers.json").write_text(
        r'{"answers": {"A": [{"tool_calls": [{"name": "half"}]}, {"text": "half \ud83d"}]}}'
    )
    package = load(tmp_path, tools=[{"agent": "A", "file": "half.py", "function": "half"}])

    _, kept = await Chat(build_chat(package, tmp_path / "answers.json", tmp_path)).run()

    json.dumps(json.loads(kept.saved[0]), ensure_ascii=False).encode()
    assert kept.turn(1).text == "half ?"
    assert [event["tool_results"][0]["text"] for event in kept.turn(1).events if "tool_results" in event] == ["half ?"]


@pytest.mark.design("D4-94")
def test_a_version_is_built_once_however_many_ask_at_once(tmp_path: Path) -> None:
    loads = str(tmp_path.parent / f"{tmp_path.name}-loads")
    write_tool(tmp_path, "slow.py", f"with open({loads!r}, 'a') as file:\n    file.write('x')\ndef slow(): ...\n")
    (tmp_path / "answers.yaml").write_text("default: {text: ok}")
    package = load(tmp_path, tools=[{"agent": "A", "file": "slow.py", "function": "slow"}])
    shop = PackageCache(
        ModelRegistry({"default": ScriptModel(provider="script", file=tmp_path / "answers.yaml")}, str), THREADS
    )
    barrier = threading.Barrier(4)

    def ask(_: int) -> BuiltPackage:
        barrier.wait(5)
        return shop.get_or_build(package)

    with ThreadPoolExecutor(4) as threads:
        asked = list(threads.map(ask, range(4)))

    assert {id(each) for each in asked} == {id(asked[0])}
    assert Path(loads).read_text() == "x"


def test_the_modules_of_a_version_that_is_kept_no_longer_are_forgotten(tmp_path: Path) -> None:
    (tmp_path / "answers.yaml").write_text("default: {text: ok}\n")
    models = ModelRegistry({"default": ScriptModel(provider="script", file=tmp_path / "answers.yaml")}, str)
    shop = PackageCache(models, THREADS, max_versions=1)

    def modules_after(text: str) -> list[str]:
        write_tool(tmp_path / "p", "t.py", f"def t():\n    return {text!r}\n")
        shop.get_or_build(load(tmp_path / "p", tools=[{"agent": "A", "file": "t.py", "function": "t"}]))
        files = {name: str(getattr(each, "__file__", "")) for name, each in sys.modules.copy().items()}
        return [name for name, file in files.items() if file.startswith(str(tmp_path))]

    first, second = modules_after("one"), modules_after("two")

    assert (len(first), len(second)) == (1, 1)
    assert first != second


def test_files_that_changed_after_they_were_read_are_not_built(tmp_path: Path) -> None:
    write_tool(tmp_path, "t.py", "def t(): ...\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])
    write_tool(tmp_path, "t.py", "def t(): return 2\n")

    with pytest.raises(PackageChanged, match="changed while they were read"):
        build_chat(package, {}, tmp_path)


def test_an_unknown_alias_is_a_defect_that_names_the_known_ones(tmp_path: Path) -> None:
    package = load(tmp_path, agents=[{"name": "A", "model": "fast"}])

    with pytest.raises(PackageDefect, match="no alias 'fast'; it has default"):
        build_chat(package, {"default": {"text": "ok"}}, tmp_path)
