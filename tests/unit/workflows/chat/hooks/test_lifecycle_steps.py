"""Life cycle: which steps are called when and with what, and how they fail a chat."""

import asyncio
import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import ORCHESTRATOR, load, rule, write_tool
from workflows.chat.chat_errors import PackageDefect
from workflows.chat.chat_loop import MAX_EXPLANATION, close_conversation
from workflows.chat.chat_state import ChatTimeouts
from workflows.chat.hooks.lifecycle_steps import run_last_steps
from workflows.context.redaction import Redactor
from workflows.outcome import Outcome, OutcomeError, OutcomeKind

MOMENTS = ("on_start", "before_chat", "before_agent", "after_agent", "after_chat", "on_complete", "on_fail")
A_TO_B = {"handoff_rules": [rule("A", "B"), rule("B", "terminate", termination_reason="all said")]}
FIXED = {"app_id": "acme", "enterprise_id": "acme", "user_id": "u1", "chat_id": "c1", "run_id": "r1"}
BEGINS = ["on_start", "before_chat"]

NOTING = "\n".join(
    f"""
def {moment}(context_variables, agent_name=None, outcome=None, error=None):
    said = [each for each in ({moment!r}, agent_name, outcome, error) if each]
    context_variables["seen"] = [*context_variables.get("seen", []), " ".join(said)]
"""
    for moment in MOMENTS
)


def step(moment: str, function: str | None = None, **fields: Any) -> dict[str, Any]:
    return {"trigger": moment, "file": "steps.py", "function": function or moment, **fields}


def chat(folder: Path, code: str, steps: list[dict[str, Any]], *, answers: Any = None, **files: Any) -> Chat:
    write_tool(folder, "steps.py", code)
    package = load(folder, tools={"lifecycle_tools": steps}, **{"handoffs": A_TO_B, **files})
    assert not package.is_refused, package.findings
    made = Chat(build_chat(package, answers or {"default": {"text": "ok"}}, folder))
    made.fixed = FIXED
    made.context = dict(FIXED)
    return made


def every_moment(folder: Path, **options: Any) -> Chat:
    return chat(folder, NOTING, [step(moment) for moment in reversed(MOMENTS)], **options)


def context_left(chat: Chat) -> dict[str, Any]:
    assert chat.last is not None
    return chat.last.storable_context()


async def test_every_moment_comes_in_its_order(tmp_path: Path) -> None:
    whole = every_moment(tmp_path)

    outcome, kept = await whole.run_to_its_close()

    assert outcome == Outcome(OutcomeKind.COMPLETED, "all said")
    in_turns = ["before_agent A", "after_agent A", "before_agent B", "after_agent B"]
    assert context_left(whole)["seen"] == [*BEGINS, *in_turns, "after_chat completed", "on_complete completed"]
    assert kept.turn(1).context_changes == {"seen": [*BEGINS, *in_turns[:2]]}
    assert kept.context(2)["seen"][-1] == "after_agent B"


async def test_steps_of_one_moment_are_called_as_they_are_written(tmp_path: Path) -> None:
    code = "def one(c): c['n'] = c.get('n', '') + '1'\nasync def two(c): c['n'] = c.get('n', '') + '2'\n"

    whole = chat(tmp_path, code, [step("before_chat", each) for each in ("two", "one", "two")])
    _, kept = await whole.run()

    assert kept.context(1)["n"] == "212"


async def test_a_turn_takes_its_steps_in_one_order(tmp_path: Path) -> None:
    noted = "def {0}(*, context_variables: dict, **_):\n    context_variables.setdefault('trail', []).append('{0}')"
    code = "\n".join(map(noted.format, ("before_agent", "call", "after_agent")))
    sent = "\ndef sent(sender, message, recipient, silent):\n    sender.context_variables['trail'].append('sent')\n"
    hook = {"hook_type": "process_message_before_send", "hook_agent": "A", "filename": "steps.py", "function": "sent"}
    write_tool(tmp_path, "steps.py", code + sent)
    package = load(
        tmp_path,
        tools={
            "tools": [{"agent": "A", "file": "steps.py", "function": "call", "auto_invoke": True}],
            "lifecycle_tools": [step(moment) for moment in ("after_agent", "before_agent")],
        },
        agents=[{"name": "A", "auto_tool_mode": True}, {"name": "B"}],
        hooks={"hooks": [hook]},
        structured_outputs={
            "models": {"M": {"type": "model", "fields": {"x": {"type": "int"}}}},
            "registry": {"A": "M"},
        },
    )
    assert not package.is_refused, package.findings

    _, kept = await Chat(build_chat(package, {"default": {"text": '{"x": 1}'}}, tmp_path)).run()

    assert kept.context(1)["trail"] == ["before_agent", "sent", "call", "after_agent"]


LEFT_RUNNING = """
import asyncio
from workflows.tools import use_ui_tool

goes_on, left = asyncio.Event(), []


async def ask():
    await goes_on.wait()
    try:
        await use_ui_tool("Card")
    except BaseException:
        pass


async def leave(): left.append(asyncio.create_task(ask()))


async def wait(c):
    goes_on.set()
    await left[0]
"""


async def test_what_a_tool_left_running_asks_a_person_in_vain_and_fails_the_run(tmp_path: Path) -> None:
    write_tool(tmp_path, "steps.py", LEFT_RUNNING)
    tools = [{"agent": "A", "file": "steps.py", "function": "leave"}]
    package = load(tmp_path, tools={"tools": tools, "lifecycle_tools": [step("after_agent", "wait")]})
    answers = {"answers": {"A": [{"tool_calls": [{"name": "leave"}]}, {"text": "ok"}]}}

    outcome, kept = await Chat(build_chat(package, answers, tmp_path)).run()

    assert (outcome.kind, kept.turns) == (OutcomeKind.PACKAGE_ERROR, [])
    assert "leave has ended, and code that it left running asks a person; await it before you return" in outcome.reason


async def test_the_failure_a_step_receives_holds_nothing_hidden(tmp_path: Path) -> None:
    told = chat(tmp_path, "def tell(c, *, error): c['length'] = len(error)\n", [step("on_fail", "tell")])
    told.redactor = Redactor(["a-long-secret-value"])
    conversation = told.conversation(ChatRecorder())

    await close_conversation(conversation, Outcome(OutcomeKind.MODEL_ERROR, "a-long-secret-value"))

    assert conversation.context["length"] == len("(hidden)")


async def test_an_agents_steps_are_those_of_its_turns(tmp_path: Path) -> None:
    steps = [step("before_agent", agent="B"), step("after_agent", agent="A"), step("after_agent")]

    _, kept = await chat(tmp_path, NOTING, steps).run()

    assert kept.context(2)["seen"] == ["after_agent A", "after_agent A", "before_agent B", "after_agent B"]


async def test_a_step_gets_the_runs_identity_from_the_run_and_not_the_context(tmp_path: Path) -> None:
    code = "def tell(*, context_variables, **runtime):\n    context_variables['told'] = runtime\n"
    whole = chat(tmp_path, code, [step("before_chat", "tell")])
    whole.context = {"user_id": "somebody else", "app_id": "other"}

    await whole.run()

    assert context_left(whole)["told"] == {
        **FIXED,
        "workflow_name": "Small",
        "execution_id": "r1",
        "agent_name": None,
        **dict.fromkeys(("error", "outcome", "error_type", "error_message", "agent", "turn")),
    }
    assert context_left(whole)["app_id"] == "acme"


FAILURE = """
def note(context_variables, error_type, error_message, agent, turn, error, agent_name):
    told = [error_type, error_message, agent, turn]
    assert agent_name is None and error_message in (None, error)
    context_variables["told"] = [*context_variables.get("told", []), told]
"""
BAD_REQUEST = {"answers": {"A": [{"text": "ok"}], "B": [{"error": {"status": 400}}]}}


@pytest.mark.design("D5-21")
@pytest.mark.parametrize(
    ("files", "moment", "told"),
    [
        ({"answers": BAD_REQUEST}, "on_fail", ["ModelError", "B", 2]),
        ({"orchestrator": {**ORCHESTRATOR, "limits": {"model_calls": 1}}}, "on_fail", ["LimitReached", "B", 2]),
        (
            {"handoffs": {"handoff_rules": [rule("A", "terminate", termination_reason="workflow_failed")]}},
            "on_fail",
            None,
        ),
        ({}, "on_complete", None),
        ({"orchestrator": {**ORCHESTRATOR, "max_turns": 1}}, "on_complete", None),
    ],
    ids=["an error", "a limit", "a rule", "success", "success at max_turns"],
)
async def test_the_last_steps_get_what_made_the_run_fail(
    tmp_path: Path, files: dict[str, Any], moment: str, told: list[Any] | None
) -> None:
    whole = chat(tmp_path, FAILURE, [step(each, "note") for each in ("after_chat", moment)], **files)

    outcome, _ = await whole.run_to_its_close()

    message = None if told is None or outcome.error is None else outcome.error.message
    expected = [None] * 4 if told is None else [told[0], message, *told[1:]]
    assert context_left(whole)["told"] == [expected, expected]


async def test_the_last_steps_get_a_failure_without_hidden_values(tmp_path: Path) -> None:
    whole = chat(tmp_path, FAILURE, [step("on_fail", "note")])
    whole.redactor = Redactor(["canary-secret-99"])
    error = OutcomeError("Bad-canary-secret-99", "with canary-secret-99", turn=0)

    conversation = whole.conversation(ChatRecorder())
    await run_last_steps(conversation, Outcome(OutcomeKind.PACKAGE_ERROR, error.message, error), succeeded=False)

    [[kind, message, agent, turn]] = conversation.storable_context()["told"]
    assert (kind[:4], message[:5], agent, turn) == ("Bad-", "with ", None, 0)
    assert "canary" not in kind + message


def hooks_json(*entries: dict[str, Any]) -> dict[str, Any]:
    return {
        "hook_files": [{"content": "# Python hook implementation", "integration": None, **each} for each in entries]
    }


@pytest.mark.design("D4-37", "D4-66", "D4-67", "D4-71", "D4-73")
async def test_a_hooks_file_as_generators_write_it_runs(tmp_path: Path) -> None:
    """After the lifecycle tools of the tools file, in its own order."""
    noted = "def {0}(context_variables): context_variables['trail'] = [*context_variables.get('trail', []), '{0}']\n"
    (tmp_path / "hooks").mkdir()
    for name in ("before_chat", "after_chat", "around"):
        (tmp_path / "hooks" / f"{name}.py").write_text(noted.format(name))
    (tmp_path / "hooks.json").write_text(
        json.dumps(
            hooks_json(
                {"filename": "hooks/before_chat.py", "trigger": "before_chat"},
                {"filename": "after_chat.py", "trigger": "after_chat"},
                {"filename": "around.py", "trigger": "after_agent", "hook_agent": "B"},
            )
        )
    )
    first = step("before_chat", "first")
    whole = chat(tmp_path, noted.format("first"), [first])

    _, kept = await whole.run_to_its_close()

    assert [each.code for each in whole.built.package.findings if each.file == "hooks.json"] == ["not_executed"] * 3
    assert context_left(whole)["trail"] == ["first", "before_chat", "around", "after_chat"]
    assert kept.turn(1).context_changes == {"trail": ["first", "before_chat"]}


ENDS: list[tuple[str, dict[str, Any], str]] = [
    (
        "workflow_failed",
        {"handoffs": {"handoff_rules": [rule("A", "terminate", termination_reason="workflow_failed")]}},
        "a rule of A ends the chat as failed",
    ),
    ("model_error", {"answers": {"answers": {"A": [{"error": {"status": 400}}]}}}, ""),
    ("loop_detected", {"orchestrator": {**ORCHESTRATOR, "limits": {"model_calls": 1}}}, ""),
    ("timeout", {"answers": {"answers": {"A": [{"text": "late", "delay_s": 60}]}}}, ""),
    ("no_transition", {"orchestrator": {**ORCHESTRATOR, "orchestration_pattern": "ag2_network"}}, "no rule of A"),
]


@pytest.mark.parametrize(("kind", "files", "reason"), ENDS, ids=[kind for kind, *_ in ENDS])
async def test_on_fail_is_called_however_a_chat_fails(
    tmp_path: Path, kind: str, files: dict[str, Any], reason: str
) -> None:
    if kind == "no_transition":
        files = {**files, "handoffs": None, "transition_graph": {"transition_rules": [{"from": "B", "to": "A"}]}}
    failing = every_moment(tmp_path, **files)
    failing.wall_clock_s = 0.05 if kind == "timeout" else 60

    outcome, _ = await failing.run_to_its_close()

    assert outcome.kind == kind
    assert reason in outcome.reason
    assert context_left(failing)["seen"][-2:] == [
        f"{each} {kind} {outcome.reason}" for each in ("after_chat", "on_fail")
    ]


async def test_a_classic_chat_that_runs_out_of_turns_is_complete(tmp_path: Path) -> None:
    ending = every_moment(tmp_path, orchestrator={**ORCHESTRATOR, "max_turns": 1})

    await ending.run_to_its_close()

    assert context_left(ending)["seen"][-2:] == ["after_chat max_turns", "on_complete max_turns"]


async def test_a_chat_that_waits_for_a_person_is_not_over(tmp_path: Path) -> None:
    waiting = every_moment(
        tmp_path,
        orchestrator={**ORCHESTRATOR, "human_in_the_loop": True},
        handoffs={"handoff_rules": [rule("A", "user")]},
    )

    outcome, _ = await waiting.run_to_its_close()

    assert outcome.kind is OutcomeKind.NEEDS_HUMAN
    assert context_left(waiting)["seen"] == [*BEGINS, "before_agent A", "after_agent A"]


async def test_a_chat_that_could_not_even_begin_is_closed(tmp_path: Path) -> None:
    never_begun = every_moment(tmp_path)
    conversation = never_begun.conversation(ChatRecorder())

    outcome = await close_conversation(conversation, Outcome(OutcomeKind.PACKAGE_ERROR, "region is missing"))

    assert outcome.reason == "region is missing"
    assert conversation.storable_context()["seen"] == [
        f"{each} package_error region is missing" for each in ("after_chat", "on_fail")
    ]


async def test_a_resumed_chat_does_not_begin_again(tmp_path: Path) -> None:
    resumed = every_moment(tmp_path)
    _, kept = await resumed.run()

    _, again = await resumed.run(kept.copy_up_to(1))

    assert again.context(2) == kept.context(2)
    assert again.context(2)["seen"].count("on_start") == 1


async def test_a_run_without_a_first_checkpoint_begins_again(tmp_path: Path) -> None:
    again = every_moment(tmp_path, answers={"answers": {"A": [{"error": {"status": 503}}]}})

    for _ in range(2):
        await again.run()
        assert context_left(again)["seen"] == [*BEGINS, "before_agent A"]


RAISING = "\n".join(f"def {moment}(ctx):\n    raise ValueError('it was secret-value')\n" for moment in MOMENTS)


@pytest.mark.parametrize(
    ("moment", "agent", "turn"),
    [("on_start", None, 0), ("before_chat", None, 0), ("before_agent", "A", 1), ("after_agent", "A", 1)],
)
async def test_a_failing_step_fails_the_run_and_names_the_place(
    tmp_path: Path, moment: str, agent: str | None, turn: int
) -> None:
    code = RAISING + "\ndef closed(context_variables): context_variables['closed'] = True\n"
    failing = chat(tmp_path, code, [step(moment), step("on_fail", "closed")])
    failing.redactor = Redactor(["secret-value"])

    outcome, kept = await failing.run_to_its_close()

    where = "" if agent is None else " of agent A in turn 1"
    assert outcome.kind is OutcomeKind.TOOL_ERROR
    said = f"{moment} steps.py:{moment}{where} failed: ValueError: it was (hidden)"
    line = 2 + 3 * MOMENTS.index(moment)
    assert outcome.reason == f"{said} (tools/steps.py:{line}, in {moment})"
    assert outcome.error is not None
    assert (outcome.error.type, outcome.error.agent, outcome.error.turn) == ("StepFailed", agent, turn)
    assert kept.turns == []
    assert context_left(failing)["closed"] is True
    assert failing.last is not None
    [incident] = failing.last.incidents
    assert (incident.where, incident.type, incident.agent) == (f"{moment} steps.py:{moment}", "ValueError", agent)
    assert failing.last.failed_tool_count == 1
    assert "raise ValueError" in incident.traceback
    assert "secret-value" not in json.dumps(incident.as_document())


@pytest.mark.parametrize("moment", ["after_chat", "on_complete"])
@pytest.mark.parametrize(
    "body",
    [
        "raise ValueError('no')",
        "raise SystemExit(3)",
        "import asyncio; raise asyncio.CancelledError",
        "raise GeneratorExit",
        "raise KeyboardInterrupt",
        "raise StopIteration",
        "raise BaseException('no')",
    ],
)
@pytest.mark.parametrize("form", ["def", "async def"])
async def test_what_fails_at_the_end_is_noted_and_changes_nothing(
    tmp_path: Path, moment: str, body: str, form: str
) -> None:
    code = f"{NOTING}\n{form} bad(ctx):\n    ctx['reached'] = True\n    {body}\n"
    steps = [step(moment, "bad"), step("after_chat"), step("on_complete")]
    closing = chat(tmp_path, code, steps)

    outcome, _ = await closing.run_to_its_close()

    assert outcome == Outcome(OutcomeKind.COMPLETED, "all said")
    assert context_left(closing)["seen"] == ["after_chat completed", "on_complete completed"]
    assert context_left(closing)["reached"] is True
    assert closing.last is not None
    [incident] = closing.last.incidents
    assert incident.where == f"{moment} steps.py:bad"
    json.dumps(incident.as_document()).encode()


@contextlib.contextmanager
def time_limit(seconds: float) -> Iterator[None]:
    started = asyncio.get_running_loop().time()
    yield
    assert asyncio.get_running_loop().time() - started < seconds


async def test_steps_that_hang_at_the_end_leave_the_others_their_time(tmp_path: Path) -> None:
    code = "import asyncio\nasync def hang(c): await asyncio.sleep(99)\n"
    steps = [step("after_chat", "hang"), step("after_chat"), step("on_complete", "hang"), step("on_complete")]
    closing = chat(tmp_path, code + NOTING, steps)
    closing.timeouts = ChatTimeouts(closing_s=0.5)  # each share is longer than a thread takes to begin
    await closing.run()
    assert closing.last is not None

    with time_limit(2):
        await close_conversation(closing.last, Outcome(OutcomeKind.COMPLETED, "all said"))

    assert context_left(closing)["seen"] == ["after_chat completed", "on_complete completed"]
    assert [each.where.split(":")[1] for each in closing.last.incidents] == ["hang", "hang"]
    assert "took longer than 0." in closing.last.incidents[0].message


async def test_a_step_of_a_turn_that_hangs_fails_the_run(tmp_path: Path) -> None:
    code = "import asyncio\nasync def hang(c): await asyncio.sleep(99)\n"
    hanging = chat(tmp_path, code, [step("before_agent", "hang")])
    hanging.timeouts = ChatTimeouts(step_s=0.05)

    outcome, _ = await hanging.run()

    assert outcome.kind is OutcomeKind.TOOL_ERROR
    assert outcome.reason.startswith("before_agent steps.py:hang of agent A in turn 1 failed: it took longer than 0.05")


HANGING = """
import asyncio

async def on_fail(context_variables):
    context_variables["begun"].set()
    await asyncio.sleep(99)

async def quick(context_variables, outcome):
    await asyncio.sleep(0)
    context_variables["closed"] = outcome
"""


async def test_a_cancelled_run_can_still_close_the_chat(tmp_path: Path) -> None:
    """As `cancel` and Ctrl-C do: the same task catches the cancellation and closes."""
    code = HANGING + "async def mark(c): c['begun'].set()\n"
    slow = {"answers": {"A": [{"text": "late", "delay_s": 60}]}}
    cancelled = chat(tmp_path, code, [step("before_chat", "mark"), step("on_fail", "quick")], answers=slow)
    conversation = cancelled.conversation(ChatRecorder())
    begun = conversation.context["begun"] = asyncio.Event()

    async def run() -> Outcome:
        try:
            return await cancelled.take_turns(conversation, ChatRecorder())
        except asyncio.CancelledError:
            return await close_conversation(conversation, Outcome(OutcomeKind.CANCELLED, "cancelled by somebody"))

    task = asyncio.create_task(run())
    await asyncio.wait_for(begun.wait(), 5)
    task.cancel()

    assert (await task).kind is OutcomeKind.CANCELLED
    assert conversation.storable_context()["closed"] == "cancelled"


async def test_a_cancellation_while_a_chat_closes_is_honoured_at_once(tmp_path: Path) -> None:
    """A worker that lost its lease must make no further calls."""
    closing = chat(tmp_path, HANGING, [step("on_fail"), step("on_fail", "quick")])
    conversation = closing.conversation(ChatRecorder())
    begun = conversation.context["begun"] = asyncio.Event()
    task = asyncio.create_task(close_conversation(conversation, Outcome(OutcomeKind.TIMEOUT, "over")))
    await asyncio.wait_for(begun.wait(), 5)

    task.cancel()

    with time_limit(2), pytest.raises(asyncio.CancelledError):
        await task
    assert "closed" not in conversation.context


async def test_a_step_with_an_unbound_parameter_fails_the_run_before_it_begins(tmp_path: Path) -> None:
    code = "def on_fail(*, amount, app_id): ...\n" + NOTING.replace("def on_fail", "def unused")
    demanding = chat(tmp_path, code, [step("on_start"), step("on_fail")])

    outcome, kept = await demanding.run_to_its_close()

    assert outcome.kind is OutcomeKind.TOOL_ERROR
    assert outcome.reason.startswith("on_fail steps.py:on_fail needs amount, which lifecycle tools do not get")
    assert (kept.calls, "seen" in context_left(demanding)) == ([], False)


async def test_what_steps_write_is_hidden_and_the_runs_identity_stays(tmp_path: Path) -> None:
    code = "def spoil(c):\n    c['key'] = 'x'\n    c['said'] = 'it is secret-value'\n    c['app_id'] = 'other'\n"
    for moment in ("before_chat", "before_agent", "after_agent", "after_chat"):
        spoiling = chat(tmp_path / moment, code, [step(moment, "spoil")])
        spoiling.redactor = Redactor(["secret-value"])
        spoiling.suppressed = frozenset({"key"})

        await spoiling.run_to_its_close()

        assert spoiling.last is not None
        assert spoiling.last.context.data == {**FIXED, "said": "it is (hidden)"}, moment


@pytest.mark.parametrize("moment", ["before_chat", "before_agent"])
async def test_a_prompt_shows_what_a_step_wrote_just_before_and_nothing_hidden(tmp_path: Path, moment: str) -> None:
    code = "def fill(c):\n    c['topic'] = 'ships'\n    c['key'] = 'canary'\n"
    variables = {
        "definitions": {
            "topic": {"type": "string", "source": {"type": "state"}},
            "key": {"type": "string", "source": {"type": "environment", "env_var": "K"}},
            "length": {
                "type": "integer",
                "source": {"type": "computed", "computation": "length(t)", "inputs": {"t": "topic"}},
            },
        },
        "agents": {"A": ["topic", "key", "length"]},
    }
    answers = {"default": {"text": "ok"}}
    filling = chat(tmp_path, code, [step(moment, "fill")], answers=answers, context_variables=variables)
    filling.suppressed = frozenset({"key"})
    asked: list[Any] = []
    agent = filling.built.agents["A"]
    ask = agent.ask

    async def asking(*message: Any, **more: Any) -> Any:
        asked.append(more["prompt"])
        return await ask(*message, **more)

    object.__setattr__(agent, "ask", asking)

    await filling.run()

    [prompt] = asked
    assert "ships" in prompt[1]
    assert "5" in prompt[1]
    assert "canary" not in prompt[1]


async def test_routing_before_the_first_turn_sees_what_steps_wrote(tmp_path: Path) -> None:
    rules = {
        "handoff_rules": [
            rule("A", "B", "${ready} == true", condition_type="expression", condition_scope="pre"),
            rule("A", "terminate"),
            rule("B", "terminate"),
        ]
    }
    code = "def ready(c): c['ready'] = True\n"
    variables = {"definitions": {"ready": {"type": "boolean", "source": {"type": "state"}}}}

    _, kept = await chat(
        tmp_path, code, [step("before_chat", "ready")], handoffs=rules, context_variables=variables
    ).run()

    assert kept.speakers == ["B"]
    assert kept.turn(1).context_changes == {"ready": True}


async def test_what_failed_in_a_turn_that_was_cut_off_is_kept(tmp_path: Path) -> None:
    answers = {"answers": {"A": [{"tool_calls": [{"name": "look"}]}, {"text": "late", "delay_s": 60}]}}
    code = "def look(): raise ValueError('not found')\n"
    write_tool(tmp_path, "look.py", code)
    tools = {"tools": {"tools": [{"agent": "A", "file": "look.py", "function": "look"}]}}
    cut_off = Chat(build_chat(load(tmp_path, handoffs=A_TO_B, **tools), answers, tmp_path), wall_clock_s=0.6)

    outcome, _ = await cut_off.run_to_its_close()

    assert outcome.kind is OutcomeKind.TIMEOUT
    assert cut_off.last is not None
    assert [each.where for each in cut_off.last.incidents] == ["tool look"]


EXPLAINED = [
    ("workflow_failed", "'No stock. ' + error[:4]", "No stock. a ru (a rule of A ends the chat as failed)"),
    ("workflow_failed", "' '", "a rule of A ends the chat as failed"),
    ("workflow_failed", "'x' * 5000", f"{'x' * MAX_EXPLANATION} (a rule of A ends the chat as failed)"),
    ("all done", "'No stock.'", "all done"),
]


@pytest.mark.parametrize(("end", "words", "reason"), EXPLAINED)
async def test_the_package_may_explain_a_failure(tmp_path: Path, end: str, words: str, reason: str) -> None:
    explained = chat(
        tmp_path,
        f"def explain(c, *, error): c['why'] = {words}\n",
        [step("after_chat", "explain")],
        orchestrator={**ORCHESTRATOR, "failure_message_key": "why"},
        handoffs={"handoff_rules": [rule("A", "terminate", termination_reason=end)]},
        context_variables={"definitions": {"why": {"type": "string", "source": {"type": "state"}}}},
    )

    outcome, _ = await explained.run_to_its_close()

    assert outcome.reason == reason


async def test_a_file_that_cannot_be_loaded_is_a_defect_of_the_package(tmp_path: Path) -> None:
    with pytest.raises(PackageDefect, match=r"steps\.py failed when it was loaded: RuntimeError: no"):
        chat(tmp_path, "def f(): ...\nraise RuntimeError('no')\n", [step("on_start", "f")])
