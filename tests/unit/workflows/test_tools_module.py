"""What tools import: the context's class, and `use_ui_tool`.

`use_ui_tool` ends a run unless its trigger has answered.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.unit.workflows.chats import Chat, ChatRecorder, build_chat
from tests.unit.workflows.packages import load, write_tool
from workflows.context.redaction import Redactor
from workflows.outcome import Outcome, OutcomeKind
from workflows.tools import ContextVariables

TWICE = {"answers": {"A": [{"tool_calls": [{"name": "t"}]}, {"text": "went on"}]}}
ASKS = "from workflows.tools import use_ui_tool, UIToolError\n"
ASK = f"{ASKS}async def t(): return dict(await use_ui_tool('Card', {{'title': 'x'}}, chat_id='c'), seen=True)\n"
VARIABLES = {
    "definitions": {
        "v": {
            "type": "string",
            "source": {
                "type": "state",
                "default": "",
                "triggers": [{"type": "ui_response", "tool": "Card", "response_key": "verdict"}],
            },
        },
        "w": {
            "type": "string",
            "source": {
                "type": "state",
                "default": "",
                "triggers": [{"type": "ui_response", "tool": "t", "response_key": "verdict"}],
            },
        },
    }
}


async def chat(
    folder: Path, source: str, ui_responses: Mapping[str, Mapping[str, Any]] | None = None, **tool: Any
) -> tuple[Outcome, ChatRecorder]:
    write_tool(folder, "t.py", source)
    entry = {"agent": "A", "file": "t.py", "function": "t", **tool}
    package = load(folder, tools=[entry], context_variables=VARIABLES)
    assert not package.is_refused, package.findings
    assert not [each for each in package.findings if each.is_blocking]
    return await Chat(build_chat(package, TWICE, folder), ui_responses=ui_responses or {}).run()


def result(recorder: ChatRecorder) -> str:
    [text] = [each["text"] for event in recorder.turn(1).events for each in event.get("tool_results", ())]
    return str(text)


SWALLOWING = [
    ASK,
    f"{ASKS}async def t():\n    try: await use_ui_tool('Card')\n    except Exception: return 'went on'\n",
    f"{ASKS}async def t():\n    try: await use_ui_tool('Card')\n    except: return 'went on'\n",
    f"{ASKS}async def t():\n    try: await use_ui_tool('Card')\n    finally: return 'went on'\n",
    f"{ASKS}import asyncio\ndef t():\n    try: asyncio.run(use_ui_tool('Card'))\n    except BaseException: return 1\n",
    f"{ASKS}import asyncio\nasync def t(): return await asyncio.gather(use_ui_tool('Card'), return_exceptions=True)\n",
]


@pytest.mark.parametrize("source", SWALLOWING)
@pytest.mark.parametrize("kind", ["Agent_Tool", "UI_Tool"])
async def test_a_tool_that_asks_a_person_ends_the_run(tmp_path: Path, source: str, kind: str) -> None:
    outcome, kept = await chat(tmp_path, source, tool_type=kind)

    assert outcome.kind is OutcomeKind.NEEDS_HUMAN
    assert outcome.reason.startswith("t waits for a person (Card): its trigger has no ui_responses for this call")
    assert outcome.error is not None
    assert (outcome.error.agent, outcome.error.turn) == ("A", 1)
    assert kept.saved == []  # the turn is repeated after an answer


@pytest.mark.parametrize("kind", ["UI_Tool", "UI_Surface"])
async def test_a_tool_of_an_unseen_interface_ends_the_run(tmp_path: Path, kind: str) -> None:
    outcome, _ = await chat(tmp_path, "def t(): return 'shown'\n", tool_type=kind)

    assert outcome.kind is OutcomeKind.NEEDS_HUMAN
    assert outcome.reason.startswith("t waits for a person: its trigger has no ui_responses for this call")


async def test_one_that_fails_before_it_asks_is_a_failed_tool(tmp_path: Path) -> None:
    outcome, kept = await chat(tmp_path, "def t(): raise ValueError('no plan yet')\n", tool_type="UI_Tool")

    assert outcome.kind is OutcomeKind.COMPLETED
    assert result(kept) == "The tool t failed: ValueError: no plan yet"


@pytest.mark.design("D1-12", "D4-62")
@pytest.mark.parametrize("kind", ["Agent_Tool", "UI_Tool"])
@pytest.mark.parametrize("name", ["Card", "t"])
async def test_what_the_trigger_answers_is_what_the_tool_gets(tmp_path: Path, kind: str, name: str) -> None:
    outcome, kept = await chat(tmp_path, ASK, {name: {"verdict": "yes"}}, tool_type=kind)

    assert outcome.kind is OutcomeKind.COMPLETED
    assert result(kept) == '{"verdict": "yes", "seen": true}'
    assert kept.context(1) | {"v": "yes", "w": "yes"} == kept.context(1)


WIZARD = """
from workflows.tools import ContextVariables, use_ui_tool

async def t(context_variables: ContextVariables = None):
    response = await use_ui_tool(tool_id="Card", payload={"fields": ["name"]}, chat_id="c", workflow_name="w")
    form_data = response.get("form_data")
    if form_data is not None:
        context_variables.set("form_submission", {**form_data, "checked": True})
    return "taken"
"""
FORM_DATA = {"type": "ui_response", "tool": "Card", "response_key": "form_data"}
SUBMISSION = {"type": "object", "source": {"type": "derived", "default": None, "triggers": [FORM_DATA]}}


@pytest.mark.design("D1-36", "D1-51", "D1-52", "D4-62")
@pytest.mark.parametrize(
    ("answer", "value"), [({"form_data": {"name": "Ann"}}, {"name": "Ann", "checked": True}), ({"other": 1}, None)]
)
async def test_a_tool_takes_a_form_out_of_the_answer(tmp_path: Path, answer: dict[str, Any], value: Any) -> None:
    write_tool(tmp_path, "t.py", WIZARD)
    package = load(
        tmp_path,
        tools=[{"agent": "A", "file": "t.py", "function": "t", "tool_type": "UI_Tool"}],
        context_variables={"definitions": {"form_submission": SUBMISSION}},
    )
    start = {"form_submission": package.variables["form_submission"].default}

    _, kept = await Chat(build_chat(package, TWICE, tmp_path), start, ui_responses={"Card": answer}).run()

    assert result(kept) == "taken"
    assert kept.context(1)["form_submission"] == value


async def test_the_id_that_is_asked_for_comes_before_the_function(tmp_path: Path) -> None:
    _, kept = await chat(tmp_path, ASK, {"t": {"verdict": "no"}, "Card": {"verdict": "yes"}})

    assert kept.context(1)["v"] == "yes"


async def test_a_tool_may_return_something_else_than_the_answer(tmp_path: Path) -> None:
    source = f"{ASKS}async def t():\n    await use_ui_tool('Card')\n    return 'thank you'\n"

    _, kept = await chat(tmp_path, source, {"Card": {"verdict": "yes"}})

    assert result(kept) == "thank you"
    assert (kept.context(1)["v"], kept.context(1)["w"]) == ("yes", "yes")


async def test_what_the_tool_makes_of_an_answer_comes_before_it(tmp_path: Path) -> None:
    source = f"{ASKS}async def t():\n    await use_ui_tool('Card')\n    return {{'verdict': 'perhaps'}}\n"

    _, kept = await chat(tmp_path, source, {"Card": {"verdict": "yes"}})

    assert (kept.context(1)["v"], kept.context(1)["w"]) == ("yes", "perhaps")


async def test_a_tool_that_only_shows_something_runs_when_it_is_answered(tmp_path: Path) -> None:
    outcome, kept = await chat(tmp_path, "def t(): return 'shown'\n", {"t": {}}, tool_type="UI_Surface")

    assert (outcome.kind, result(kept)) == (OutcomeKind.COMPLETED, "shown")


async def test_an_answer_is_a_copy(tmp_path: Path) -> None:
    source = "async def t():\n    (await use_ui_tool('Card'))['list'].append(1)\n    return await use_ui_tool('Card')\n"
    given: dict[str, Any] = {"Card": {"list": []}}

    _, kept = await chat(tmp_path, ASKS + source, given)

    assert result(kept) == '{"list": []}'
    assert given == {"Card": {"list": []}}


async def test_what_a_tool_asks_with_is_short_and_without_what_is_hidden(tmp_path: Path) -> None:
    write_tool(tmp_path, "t.py", f"{ASKS}async def t(): await use_ui_tool('hunter2hunter2' + 'x' * 500)\n")
    package = load(tmp_path, tools=[{"agent": "A", "file": "t.py", "function": "t"}])

    outcome, _ = await Chat(build_chat(package, TWICE, tmp_path), redactor=Redactor(["hunter2hunter2"])).run()

    assert outcome.reason.startswith("t waits for a person ((hidden)xxx")
    assert len(outcome.reason) < 250


async def test_answers_for_other_tools_answer_nothing(tmp_path: Path) -> None:
    outcome, _ = await chat(tmp_path, ASK, {"Other": {"verdict": "yes"}})

    assert outcome.kind is OutcomeKind.NEEDS_HUMAN


@pytest.mark.design("D1-62")
def test_the_context_has_the_methods_that_tools_call() -> None:
    context = ContextVariables({"a": 1})

    context.set("b", 2)
    context["c"] = 3
    context.update({"d": 4})
    assert (context.get("a"), context.get("x"), context.get("x", 0), context["b"]) == (1, None, 0, 2)
    assert (context.remove("c"), context.remove("c")) == (True, False)
    assert (context.contains("a"), "c" in context, len(context)) == (True, False, 3)
    assert (list(context), list(context.keys()), list(context.values())) == (
        ["a", "b", "d"],
        ["a", "b", "d"],
        [1, 2, 4],
    )
    assert context.to_dict() == context.data == dict(context.items()) == {"a": 1, "b": 2, "d": 4}
    assert (context.setdefault("e", 5), context.pop("e")) == (5, 5)
    context.data["f"] = 6
    assert context["f"] == 6


def test_copies_of_the_context_are_not_the_context() -> None:
    context = ContextVariables.from_dict({"a": 1})
    one, other = context.copy(), context.to_dict()
    context.data = {"b": 2}

    assert (one.to_dict(), other, context.to_dict()) == ({"a": 1}, {"a": 1}, {"b": 2})
    assert isinstance(one, ContextVariables)
