"""`unattended run`: what it prints, for people and for programs, and its exit codes."""

import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ops.cli.error_messages import describe_error
from ops.cli.live_view import LiveView
from ops.cli.main import cli
from ops.cli.runs import local_run_command
from ops.presenters.turn_lines import error_lines, turn_lines
from tests.unit.workers.local_run.test_local_run import DONE, PAIR, READ, calls, package, with_tool
from workers.local_run.report import RunReport, ToolCallReport, TurnReport, turn_report
from workers.store.run import RunState
from workflows.operator_file import OperatorFileError
from workflows.outcome import Outcome, OutcomeError, OutcomeKind

CONFIGURE_LOGGING = local_run_command._configure_logging
REFUSED = {"workflow_name": "Small", "initial_agent": "Nobody"}


def unattended_run(*arguments: Any, **environ: str) -> Result:
    clean = {name: None for name in os.environ if name.startswith(("UNATTENDED_", "CONTEXT_")) or name == "ENVIRONMENT"}
    return CliRunner().invoke(cli, ["run", *map(str, arguments)], env={**clean, **environ})


@pytest.fixture(autouse=True)
def _own_logging(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command configures the process's log; the suite keeps its own."""
    monkeypatch.setattr("ops.cli.runs.local_run_command._configure_logging", lambda *_, **__: None)


@pytest.fixture
def log_of_command(_own_logging: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The log as the command configures it, until the test is over."""
    monkeypatch.setattr("ops.cli.runs.local_run_command._configure_logging", CONFIGURE_LOGGING)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    root, verbose = logging.getLogger(), logging.getLogger("workers.steps.context_log")
    level, handlers = root.level, list(root.handlers)
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    verbose.setLevel(logging.NOTSET)


def script(folder: Path, body: Any = DONE) -> Path:
    path = folder / "answers.json"
    path.write_text(json.dumps(body), encoding="utf-8")
    return path


def turn(**changes: Any) -> TurnReport:
    fields: dict[str, Any] = {
        "agent": "A",
        "text": "hello",
        "tool_calls": (),
        "handoff": "B",
        "context_changes": {},
        "tokens": {"input": 3, "output": 4},
        "duration_s": 0.5,
    }
    return TurnReport(**{**fields, **changes})


def test_json_is_all_that_stdout_holds_whatever_a_tool_prints(tmp_path: Path) -> None:
    folder = with_tool(tmp_path, "def act():\n    print('noise')\n")
    answers = script(tmp_path, {"answers": {"A": [calls(), {"text": "x"}]}, **DONE})

    done = unattended_run(folder, "--script", answers, "--json")

    report = json.loads(done.stdout)
    assert done.exit_code == 0
    assert (report["state"], [each["agent"] for each in report["turns"]]) == ("succeeded", ["A", "B"])
    assert "noise" in done.stderr


VERBOSE = {
    "definitions": {
        "note": {"type": "string", "source": {"type": "static", "value": "shown in a preview"}},
        "api_key": {"type": "string", "source": {"type": "static", "value": "canary"}},
        "seen": {"type": "string", "source": {"type": "environment", "env_var": "SEEN"}},
        "stage": {
            "type": "string",
            "source": {
                "type": "state",
                "default": "new",
                "transitions": [
                    {"to": "begun", "trigger": {"type": "agent_turn_count", "agent": "A", "count": 1}},
                    {"to": "over", "trigger": {"type": "agent_turn_count", "agent": "B", "count": 1}},
                ],
            },
        },
    }
}


@pytest.mark.design("D1-31", "D1-61")
@pytest.mark.parametrize(
    ("environ", "events"),
    [
        ({}, []),
        ({"CONTEXT_VERBOSE_DEBUG": "1"}, ["context_loaded", "context_changed", "context_changed"]),
        ({"CONTEXT_VERBOSE_DEBUG": "1", "UNATTENDED_LOG_LEVEL": "warning"}, []),
        ({"UNATTENDED_LOG_LEVEL": "info"}, ["context_loaded"]),
    ],
)
@pytest.mark.usefixtures("log_of_command")
def test_a_verbose_run_shows_on_stderr_how_its_context_changes(
    tmp_path: Path, environ: dict[str, str], events: list[str]
) -> None:
    folder = package(tmp_path, context_variables=VERBOSE)
    surroundings = {"SEEN": "hidden-in-production", "UNATTENDED_LOG_FORMAT": "json", **environ}

    done = unattended_run(folder, "--script", script(tmp_path), "--json", "--production", **surroundings)

    assert json.loads(done.stdout)["state"] == "succeeded"
    logged = [json.loads(line) for line in done.stderr.splitlines() if line.startswith("{")]
    lines = [line for line in logged if line["event"].startswith("context_")]
    assert [line["event"] for line in lines] == events
    assert "canary" not in done.stderr
    assert "hidden-in-production" not in done.stderr
    assert [line for line in lines if "values" in line and len(events) < 3] == []
    if len(events) == 3:
        loaded, *changes = lines
        assert (loaded["values"]["note"], loaded["values"]["api_key"]) == ("shown in a preview", "(hidden)")
        assert [(line["turn"], line["changes"]) for line in changes] == [
            (1, {"stage": "new -> begun"}),
            (2, {"stage": "begun -> over"}),
        ]


def test_people_see_turns_tools_changes_and_the_end(tmp_path: Path) -> None:
    folder = with_tool(
        tmp_path, "def act(n: int, context_variables):\n    context_variables.set('n', n)\n    return 'set'\n"
    )
    answers = script(
        tmp_path, {"answers": {"A": [calls(n=5), {"text": "x", "usage": {"input": 9, "output": 1}}]}, **DONE}
    )

    done = unattended_run(folder, "--script", answers)

    lines = done.stdout.splitlines()
    assert lines[0].startswith("1. A → B  (9 tokens in, 1 out, ")
    assert lines[1:4] == ['   calls act({"n": 5}) → set', "   x", "   n = 5"]
    assert lines[4].startswith("2. B → terminate  (")
    assert "succeeded, completed: B ends the chat" in lines
    assert lines[-1].startswith("2 turns, 3 model calls, 9 tokens in, 1 out, ")
    assert "\x1b" not in done.stdout


def test_a_run_that_fails_is_exit_code_1_and_named(tmp_path: Path) -> None:
    done = unattended_run(package(tmp_path), "--script", script(tmp_path, {"default": {"error": 400}}))

    assert done.exit_code == 1
    assert "failed, model_error: the script answers with status 400" in done.stdout
    assert "ModelError of A in turn 1" in done.stdout


def test_a_tools_failure_is_shown_with_place_and_traceback(tmp_path: Path) -> None:
    folder = with_tool(tmp_path, "def act():\n    raise ValueError('boom')\n")
    answers = script(tmp_path, {"answers": {"A": [calls(), {"text": "x"}]}, **DONE})

    short = unattended_run(folder, "--script", answers)
    long = unattended_run(folder, "--script", answers, "--verbose")

    assert "ValueError: boom (tools/act.py:2, in act)" in short.stdout
    assert "Traceback" not in short.stdout
    assert "Traceback" in long.stdout


def test_notes_go_to_stderr_also_with_json(tmp_path: Path) -> None:
    folder = package(tmp_path, context_variables={"definitions": {"order": READ}})

    for more in ([], ["--json"]):
        done = unattended_run(folder, "--script", script(tmp_path), *more)

        assert done.exit_code == 0
        assert done.stderr.startswith("note: no database is read here: order begin")


ASKS_MONGODB = """
from core.core_config import get_mongo_client
async def act():
    try:
        await get_mongo_client()["shop"]["orders"].find_one({})
    except Exception as error:
        return f"{type(error).__name__}: {error}"
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "DatabaseNotAllowedError: get_mongo_client gives no database here"),
        (
            "compat: {databases: [kb]}",
            "DatabaseNotAllowedError: the database 'shop' is not allowed to packages, only k",
        ),
        (
            "compat: {databases: [shop]}",
            "DatabaseNotAllowedError: get_mongo_client has no server here: set UNATTEND",
        ),
    ],
)
def test_a_run_obeys_the_operators_file(tmp_path: Path, text: str | None, said: str) -> None:
    folder = with_tool(tmp_path, ASKS_MONGODB)
    answers = script(tmp_path, {"answers": {"A": [calls(), {"text": "x"}]}, **DONE})
    file = tmp_path / "operator.yaml"
    if text is not None:
        file.write_text(text, encoding="utf-8")

    environ = {} if text is None else {"UNATTENDED_CONFIG": str(file)}
    done = unattended_run(folder, "--script", answers, "--json", **environ)

    [call] = json.loads(done.stdout)["turns"][0]["tool_calls"]
    assert call["result"].startswith(said)


def test_a_mistake_in_the_operators_file_is_reported_at_once(tmp_path: Path) -> None:
    file = tmp_path / "operator.yaml"
    file.write_text("destinations: {}", encoding="utf-8")

    done = unattended_run(package(tmp_path), "--script", script(tmp_path), UNATTENDED_CONFIG=str(file))

    assert isinstance(done.exception, OperatorFileError)
    said = f"{file}: destinations is not a key of the operator's file; docs/operator-file.md lists its keys"
    assert describe_error(done.exception) == (said, 2)
    assert done.stdout == ""


def test_values_of_variables_may_stand_in_a_file(tmp_path: Path) -> None:
    folder = package(tmp_path, context_variables={"definitions": {"order": READ}})
    (tmp_path / "context.json").write_text('\ufeff{"order": {"total": 4}}', encoding="utf-8")

    done = unattended_run(folder, "--script", script(tmp_path), "--context", f"@{tmp_path}/context.json", "--json")

    assert json.loads(done.stdout)["context"]["order"] == {"total": 4}


def test_what_is_not_json_is_still_printed_as_json(tmp_path: Path) -> None:
    folder = with_tool(tmp_path, "def act(context_variables):\n    context_variables.set('n', float('nan'))\n")
    answers = script(tmp_path, {"answers": {"A": [calls(), {"text": "x"}]}, **DONE})

    done = unattended_run(folder, "--script", answers, "--json")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is not JSON")

    json.loads(done.stdout, parse_constant=refuse)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--input", "{"], "--input: is not JSON"),
        (["--input", '{"n": NaN}'], "--input: is not JSON: NaN"),
        (["--input", "[" * 100_000], "--input: is not JSON"),
        (["--input", "[]"], "--input: must be a JSON object"),
        (["--input", "@/nowhere"], "--input: /nowhere cannot be read"),
        (["--context", '{"nothing": 1}'], "context: nothing cannot be preset"),
        (["--ui-responses", '{"approve": "yes"}'], "ui_responses"),
        (
            ["--ui-responses", '{"approve": [{"when": "amount", "answer": {}}]}'],
            "ui_responses: approve[0].when: uses",
        ),
        (["--script", "/nowhere.yaml"], "/nowhere.yaml cannot be read"),
        (["--script", "a.yaml", "--models", "b.yaml"], "remove --models"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(tmp_path: Path, arguments: list[str], said: str) -> None:
    done = unattended_run(package(tmp_path), *arguments)

    assert done.exit_code == 2
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    assert line.startswith("unattended: ")
    assert said in line


def test_a_package_that_is_not_started_is_exit_code_1(tmp_path: Path) -> None:
    done = unattended_run(package(tmp_path, orchestrator=REFUSED), "--json")

    assert (done.exit_code, done.stdout) == (1, "")
    assert done.stderr.startswith("unattended: Small is not started: error: orchestrator.yaml: initial_agent:")


def test_production_is_looked_at_from_the_first(tmp_path: Path) -> None:
    definitions = {"flag": {"type": "string", "source": {"type": "config", "env_var": "FLAG", "default": "x"}}}
    folder = package(tmp_path, context_variables={"definitions": definitions}, handoffs=PAIR)

    done = unattended_run(folder, "--script", script(tmp_path), "--production", "--json", FLAG="value")

    assert "flag" not in json.loads(done.stdout)["context"]


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown_on_a_terminal(monkeypatch: pytest.MonkeyPatch, *, no_color: bool, term: str = "xterm") -> str:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setenv("NO_COLOR", "1") if no_color else monkeypatch.delenv("NO_COLOR", raising=False)
    out = Terminal()
    view = LiveView(out, note=lambda _: None, verbose=False)
    view.speaking("A")
    view.turn(1, turn(text="[bold]not markup[/bold]"))
    return out.getvalue()


def test_a_terminal_has_colours_and_says_who_is_awaited(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = shown_on_a_terminal(monkeypatch, no_color=False)

    assert shown.index("… A") < shown.index("\x1b[2K") < shown.index("1. A → B")
    assert "\x1b[1m1. A" in shown
    assert "[bold]not markup[/bold]" in shown


def test_what_a_terminal_cannot_take_away_again_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "… A" not in shown_on_a_terminal(monkeypatch, no_color=True, term="dumb")


def test_a_pipe_that_wants_colours_gets_no_line_that_is_redrawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    out = io.StringIO()

    view = LiveView(out, note=lambda _: None, verbose=False)
    view.speaking("A")
    view.turn(1, turn(text="said"))

    assert out.getvalue().startswith("\x1b[1m1. A")
    assert "… A" not in out.getvalue()


def test_no_color_is_respected(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = shown_on_a_terminal(monkeypatch, no_color=True)

    assert "1. A → B" in shown
    assert "m1. A" not in shown


@pytest.mark.parametrize(("state", "code"), [("needs_human", 33), ("failed", 31), ("succeeded", 32)])
def test_a_run_that_asks_a_person_is_no_red_error(state: str, code: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.delenv("NO_COLOR", raising=False)
    outcome = Outcome(OutcomeKind.NEEDS_HUMAN, "pay waits", OutcomeError("NeedsHuman", "pay waits", "A", 1))
    report = RunReport("run_1", "W", RunState(state), outcome, (), {}, (), (), (), (), 1, 0.1)
    out = Terminal()

    LiveView(out, note=lambda _: None, verbose=False).end(report)

    kind = "" if state == "needs_human" else ", needs_human"  # one word is said once
    assert f"\x1b[{code}m{state}{kind}: pay waits" in out.getvalue()
    assert ("NeedsHuman of A" in out.getvalue()) == (state != "needs_human")


def test_control_characters_are_shown_as_text_and_long_values_are_cut() -> None:
    call = ToolCallReport("act", {"text": "y" * 5_000}, "z" * 5_000)
    out = io.StringIO()

    LiveView(out, note=lambda _: None, verbose=False).turn(
        1, turn(text="\x1b]0;title\x07" + "x" * 9_000, tool_calls=(call,))
    )

    lines = out.getvalue().splitlines()
    assert all(line.isprintable() for line in lines)
    assert len(lines[1]) < 600
    assert lines[2].endswith("… (9010 characters)")
    assert len(lines[2]) < 5_000


@pytest.mark.parametrize(
    ("kept", "shown"),
    [
        ({"traceback": ""}, ""),
        # As an older version kept it.
        (
            {"traceback": '  File "/p/t.py", line 2, in t\n  File "<frozen os>", line 679, in get\n'},
            " (<frozen os>:679, in get)",
        ),
        (
            {"traceback": '  File "<frozen os>", line 679, in get\n', "place": "tools/t.py:2, in t"},
            " (tools/t.py:2, in t)",
        ),
        ({"traceback": '  File "<frozen os>", line 679, in get\n', "place": None}, ""),
    ],
)
def test_a_failure_is_shown_with_its_place(kept: dict[str, Any], shown: str) -> None:
    error = {"where": "tool act", "type": "TimedOutError", "message": "too long", **kept}

    assert list(error_lines([error])) == [("red", f"   ! tool act: TimedOutError: too long{shown}")]


def test_a_turn_that_an_older_worker_kept_is_shown() -> None:
    kept: dict[str, Any] = {
        "agent": "A",
        "text": "hello",
        "events": [{"text": None, "tool_calls": [{"id": "1", "name": "act", "arguments": "{"}]}],
        "handoff": None,
        "context_changes": {},
        "tokens": {},
        "duration_s": 1.0,
    }

    lines = [line for _, line in turn_lines(1, turn_report(kept))]

    assert lines == ["1. A → end  (0 tokens in, 0 out, 1.00 s)", "   calls act({)", "   hello"]


def test_a_reader_who_has_left_does_not_end_the_run() -> None:
    class Gone(io.StringIO):
        def flush(self) -> None:
            raise BrokenPipeError

    view = LiveView(Gone(), note=lambda _: None, verbose=False)

    view.turn(1, turn())
    view.turn(2, turn())


def test_the_names_of_the_report_are_those_of_the_guide() -> None:
    page = (Path(__file__).parents[3] / "docs" / "testing-packages.md").read_text(encoding="utf-8")
    report = page.partition("## The report")[2].partition("## ")[0]

    assert {each for each in RunReport.__dataclass_fields__ if f"`{each}`" not in report} == set()
