"""Local runs: a package runs in this process as on a worker, without any server."""

import asyncio
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.unit.workflows.packages import ENTITY, rule, write_package, write_tool
from unattended import run_package
from workers.local_run.local_request import NoteWatch, NotStartedError, Request, WrongUseError
from workers.local_run.package_lookup import chosen_package
from workers.local_run.report import TurnReport
from workers.local_run.run_package import open_local_run, run_package_async
from workers.settings import load_settings
from workers.store.run import RunState
from workflows.context.redaction import Redactor

DONE: Mapping[str, Any] = {"default": {"text": "done"}}
FAST_FAIL = {"error": {"status": 429, "retry_after_s": 3600}}
PAIR = {"handoff_rules": [rule("A", "B"), rule("B", "terminate")]}
READ: dict[str, Any] = {
    "type": "object",
    "source": {
        "type": "data_reference",
        "database_name": "shop",
        "collection": "orders",
        "query_template": {"app_id": "{{runtime.app_id}}"},
        "fields": ["total", "status"],
    },
}


RANDOM = {"workflow_name": "Small", "initial_agent": "A", "orchestration_pattern": "RandomPattern", "max_turns": 7}


@pytest.fixture(autouse=True)
def _environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ENVIRONMENT", "UNATTENDED_MAX_ATTEMPTS", "CONTEXT_INCLUDE_SCHEMA", "UNATTENDED_MODELS"):
        monkeypatch.delenv(name, raising=False)


def package(folder: Path, **files: Any) -> Path:
    return write_package(folder / "Small", **{"handoffs": PAIR, **files})


def with_tool(folder: Path, source: str, **files: Any) -> Path:
    tools = {"tools": [{"agent": "A", "file": "act.py", "function": "act", "description": "acts"}]}
    target = package(folder, tools=tools, **files)
    write_tool(target, "act.py", source)
    return target


def calls(name: str = "act", **arguments: Any) -> dict[str, Any]:
    return {"tool_calls": [{"name": name, "arguments": arguments}]}


async def test_the_report_has_the_speakers_and_the_costs(tmp_path: Path) -> None:
    script = {
        "answers": {
            "A": [calls(number=3), {"text": "four", "usage": {"input": 10, "output": 2}}],
            "B": [{"text": "bye", "usage": {"input": 7, "output": 1}}],
        }
    }
    folder = with_tool(
        tmp_path, "def act(number: int, context_variables):\n    context_variables.set('n', number + 1)\n"
    )

    report = await run_package_async(folder, script=script, message="Go.", app="acme")

    assert (report.state, report.outcome.kind, report.succeeded) == ("succeeded", "completed", True)
    assert report.speakers == ["A", "B"]
    (call,) = report.turns[0].tool_calls
    assert (call.name, call.arguments, call.failed) == ("act", {"number": 3}, False)
    assert [(turn.text, turn.handoff) for turn in report.turns] == [("four", "B"), ("bye", "terminate")]
    assert report.turns[0].context_changes == {"n": 4}
    assert (report.context["n"], report.context["app_id"], report.context["user_id"]) == (4, "acme", None)
    assert report.context["run_id"] == report.context["chat_id"] == report.run_id
    assert report.context["trigger"] == {"type": "manual", "name": "run"}
    assert [(each.agent, each.input_tokens, each.output_tokens, each.ok) for each in report.usage] == [
        ("A", 0, 0, True),
        ("A", 10, 2, True),
        ("B", 7, 1, True),
    ]


async def test_the_report_is_json(tmp_path: Path) -> None:
    report = await run_package_async(package(tmp_path), script=DONE)

    data = json.loads(json.dumps(report.as_json()))

    assert {"outcome", "state", "turns", "context", "usage", "errors"} <= set(data)
    assert data["outcome"] == {"kind": "completed", "reason": report.outcome.reason, "error": None}
    assert {"agent", "text", "tool_calls", "handoff"} <= set(data["turns"][0])
    assert {"agent", "model", "input_tokens", "output_tokens", "ok"} <= set(data["usage"][0])


def test_it_runs_where_no_loop_runs(tmp_path: Path) -> None:
    reports = []

    def outside() -> None:
        reports.append(run_package(package(tmp_path), script=DONE))

    asyncio.run(asyncio.to_thread(outside))

    assert reports[0].succeeded


async def test_a_shipped_package_is_found_by_its_name() -> None:
    answers = Path(__file__).parents[4] / "workflows" / "library" / "answers.yaml"

    report = await run_package_async(
        "OrderFollowUp", script=_without_delays(answers), input={"order_id": "7"}, context={"order": {"total": 120}}
    )

    assert report.speakers == ["Reviewer", "Correspondent"]
    assert report.context["follow_up_kind"] == "thank_you"


def _without_delays(answers: Path) -> dict[str, Any]:
    raw: dict[str, Any] = yaml.safe_load(answers.read_text(encoding="utf-8"))
    for entries in raw["answers"].values():
        for entry in entries:
            entry.pop("delay_s", None)
    return raw


async def test_a_transient_error_is_retried_after_the_last_turn_at_once(tmp_path: Path) -> None:
    script = {"answers": {"A": [{"text": "one"}], "B": [FAST_FAIL, {"text": "two"}]}}

    report = await run_package_async(package(tmp_path), script=script)

    assert (report.state, report.attempts) == ("succeeded", 2)
    assert report.speakers == ["A", "B"]
    assert [(call.agent, call.ok) for call in report.usage] == [("A", True), ("B", False), ("B", True)]
    assert len(report.notes) == 1
    assert "429" in report.notes[0]


async def test_after_the_last_attempt_the_run_is_parked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNATTENDED_MAX_ATTEMPTS", "2")

    report = await run_package_async(package(tmp_path), script={"answers": {"A": [FAST_FAIL] * 9}})

    assert (report.state, report.outcome.kind, report.attempts) == ("parked", "model_error", 2)
    assert len(report.usage) == 2
    assert not report.succeeded


async def test_without_a_script_an_attempt_waits_as_a_worker_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("workers.local_run.local_run.random.random", lambda: 0.0)
    answers = {"answers": {"A": [{"error": {"status": 429, "retry_after_s": 0.05}}]}, **DONE}
    (tmp_path / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    models = tmp_path / "models.yaml"
    models.write_text("models: {default: {provider: script, file: answers.json}}", encoding="utf-8")

    report = await run_package_async(package(tmp_path), models=models)

    assert (report.state, report.attempts) == ("succeeded", 2)
    assert report.notes[0].endswith("the next one begins in 0.1 s")
    assert report.duration_s > 0.05


async def test_limits_count_over_all_attempts(tmp_path: Path) -> None:
    orchestrator = {"workflow_name": "Small", "initial_agent": "A", "limits": {"model_calls": 2}}

    report = await run_package_async(
        package(tmp_path, orchestrator=orchestrator), script={"answers": {"A": [FAST_FAIL] * 9}}
    )

    assert (report.state, report.outcome.kind) == ("failed", "loop_detected")
    assert len(report.usage) == 2


async def test_a_permanent_error_fails_at_once(tmp_path: Path) -> None:
    report = await run_package_async(package(tmp_path), script={"default": {"error": 400}})

    assert (report.state, report.attempts, report.turns) == ("failed", 1, ())
    error = report.outcome.error
    assert error is not None
    assert (error.agent, error.turn) == ("A", 1)


async def test_what_fails_in_a_tool_is_among_the_errors_with_its_traceback(tmp_path: Path) -> None:
    folder = with_tool(tmp_path, "def act():\n    raise ValueError('no such order')\n")

    report = await run_package_async(folder, script={"answers": {"A": [calls(), {"text": "sorry"}]}, **DONE})

    assert report.succeeded
    assert report.turns[0].tool_calls[0].failed
    (error,) = report.errors
    assert (error["type"], error["message"], error["agent"]) == ("ValueError", "no such order", "A")
    assert "act.py" in error["traceback"]


async def test_a_handoff_to_a_person_waits_for_him(tmp_path: Path) -> None:
    orchestrator = {"workflow_name": "Small", "initial_agent": "A", "human_in_the_loop": True}
    rules = {"handoff_rules": [rule("A", "user"), rule("B", "terminate")]}

    report = await run_package_async(package(tmp_path, orchestrator=orchestrator, handoffs=rules), script=DONE)

    assert (report.state, report.outcome.kind) == ("needs_human", "needs_human")


async def test_a_module_that_cannot_be_loaded_is_the_packages_fault(tmp_path: Path) -> None:
    report = await run_package_async(with_tool(tmp_path, "raise RuntimeError('broken')\ndef act(): ...\n"), script=DONE)

    assert (report.state, report.outcome.kind) == ("failed", "package_error")
    assert "act.py" in report.outcome.reason
    assert (report.turns, report.usage) == ((), ())


async def test_no_agent_speaks_before_the_package_is_loaded(tmp_path: Path) -> None:
    settings, watch = load_settings({}), FirstTurn()
    broken = chosen_package(with_tool(tmp_path, "raise RuntimeError('broken')\ndef act(): ...\n"), settings)

    async with open_local_run(broken, Request(script=DONE), settings, watch=watch) as run:
        await run.work()

    assert watch.speakers == []


async def test_no_database_is_read_and_a_note_says_whose_default_is_taken(tmp_path: Path) -> None:
    definitions = {"order": READ, "customer": ENTITY}

    report = await run_package_async(package(tmp_path, context_variables={"definitions": definitions}), script=DONE)

    assert (report.context["order"], report.context["customer"]) == (None, {})
    (note,) = report.notes
    assert "customer, order" in note
    assert "--context" in note


async def test_a_required_value_of_a_database_is_asked_for(tmp_path: Path) -> None:
    needed = {**READ, "source": {**READ["source"], "required": True}}

    report = await run_package_async(
        package(tmp_path, context_variables={"definitions": {"order": needed}}), script=DONE
    )

    assert (report.state, report.outcome.kind) == ("failed", "package_error")
    assert "order from shop.orders" in report.outcome.reason
    assert "--context" in report.outcome.reason


async def test_presets_take_the_place_of_reads_and_of_where_a_state_begins(tmp_path: Path) -> None:
    definitions = {"order": READ, "mood": {"type": "string", "source": {"type": "state", "default": "calm"}}}

    report = await run_package_async(
        package(tmp_path, context_variables={"definitions": definitions}),
        script=DONE,
        context={"order": {"total": 3}, "mood": "cross"},
    )

    assert (report.context["order"], report.context["mood"]) == ({"total": 3}, "cross")
    assert report.notes == ()


@pytest.mark.parametrize(
    ("preset", "said"),
    [
        ({"ordr": 1}, "no such variable; it has count"),
        ({"app_id": "other"}, "the run itself"),
        ({"region": "eu"}, "it is an input"),
        ({"count": "many"}, "must be of type integer"),
        ({"count": 2**70}, "count"),
    ],
)
async def test_a_preset_that_makes_no_sense_is_refused(tmp_path: Path, preset: dict[str, Any], said: str) -> None:
    orchestrator = {"workflow_name": "Small", "initial_agent": "A", "inputs": {"region": {"type": "string"}}}
    definitions = {"count": {"type": "integer", "source": {"type": "state", "default": 0}}}
    folder = package(tmp_path, orchestrator=orchestrator, context_variables={"definitions": definitions})

    with pytest.raises(WrongUseError, match=said):
        await run_package_async(folder, script=DONE, context=preset)


@pytest.mark.design("D4-65")
async def test_production_has_no_environment_variables_not_even_preset_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SMALL_FLAG", "a-value-of-this-machine")
    definitions = {"flag": {"type": "string", "source": {"type": "config", "env_var": "SMALL_FLAG"}}}
    source = "import os\n\ndef act():\n    return os.environ['SMALL_FLAG']\n"
    folder = with_tool(tmp_path, source, context_variables={"definitions": definitions})
    script = {"answers": {"A": [calls(), {"text": "done"}]}, **DONE}

    development = await run_package_async(folder, script=script)
    production = await run_package_async(folder, script=script, production=True, context={"flag": "mine"})

    assert development.context["flag"] == "a-value-of-this-machine"
    assert "flag" not in production.context
    assert "a-value-of-this-machine" not in json.dumps(production.as_json())
    assert "flag" in production.notes[0]


async def test_what_would_be_written_is_reported_and_not_written(tmp_path: Path) -> None:
    source = "def act(context_variables):\n    context_variables.set('customer', {'plan': 'gold'})\n"
    folder = with_tool(tmp_path, source, context_variables={"definitions": {"customer": ENTITY}})

    report = await run_package_async(folder, script={"answers": {"A": [calls(), {"text": "x"}]}, **DONE}, app="acme")

    assert list(report.writes) == [
        {
            "variable": "customer",
            "database": "shop",
            "collection": "customers",
            "key": "app_id",
            "key_value": "acme",
            "values": {"plan": "gold"},
        }
    ]
    assert "no database is written here" in report.notes[-1]


async def test_what_a_database_would_refuse_fails_the_run_here_too(tmp_path: Path) -> None:
    source = "def act(context_variables):\n    context_variables.set('customer', {'surprise': 1})\n"
    folder = with_tool(tmp_path, source, context_variables={"definitions": {"customer": ENTITY}})

    report = await run_package_async(folder, script={"answers": {"A": [calls(), {"text": "x"}]}, **DONE})

    assert (report.state, report.outcome.kind, report.writes) == ("failed", "package_error", ())
    assert "surprise" in report.outcome.reason


@dataclass
class FirstTurn:
    """Signals its commit."""

    taken: asyncio.Event = field(default_factory=asyncio.Event)
    speakers: list[str] = field(default_factory=list)

    def speaking(self, agent: str) -> None:
        self.speakers.append(agent)

    def turn(self, number: int, turn: TurnReport) -> None:
        del number, turn
        self.taken.set()

    def note(self, text: str) -> None:
        del text


async def test_a_cancelled_run_ends_as_cancelled_and_raises_the_cancellation(tmp_path: Path) -> None:
    settings, watch = load_settings({}), FirstTurn()
    script = {"answers": {"A": [{"text": "one"}], "B": [{"text": "late", "delay_s": 600}]}}
    small = chosen_package(package(tmp_path), settings)

    async with open_local_run(small, Request(script=script), settings, watch=watch) as run:
        task = asyncio.create_task(run.work())
        await watch.taken.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        report = run.report()

    assert (report.state, report.outcome.kind) == ("cancelled", "cancelled")
    assert report.speakers == ["A"]
    assert watch.speakers == ["A", "B"]


@dataclass
class SecondAttempt(FirstTurn):
    """Signals its beginning."""

    def speaking(self, agent: str) -> None:
        super().speaking(agent)
        if self.speakers == ["A", "A"]:
            self.taken.set()


async def test_a_run_is_cancelled_in_a_later_attempt_as_in_the_first(tmp_path: Path) -> None:
    settings, watch = load_settings({}), SecondAttempt()
    script = {"answers": {"A": [FAST_FAIL, {"text": "late", "delay_s": 600}]}}
    small = chosen_package(package(tmp_path), settings)

    async with asyncio.timeout(20), open_local_run(small, Request(script=script), settings, watch=watch) as run:
        task = asyncio.create_task(run.work())
        await watch.taken.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        report = run.report()

    assert (report.state, report.attempts, report.turns) == ("cancelled", 2, ())


async def test_a_run_is_cancelled_while_it_waits_for_its_next_attempt(tmp_path: Path) -> None:
    answers = {"answers": {"A": [FAST_FAIL]}, **DONE}
    (tmp_path / "answers.json").write_text(json.dumps(answers), encoding="utf-8")
    models = tmp_path / "models.yaml"
    models.write_text("models: {default: {provider: script, file: answers.json}}", encoding="utf-8")
    settings, noted = load_settings({}, models=models), asyncio.Event()
    small = chosen_package(package(tmp_path), settings)

    watch = NoteWatch(lambda _: noted.set())
    async with asyncio.timeout(20), open_local_run(small, Request(), settings, watch=watch) as run:
        task = asyncio.create_task(run.work())
        await noted.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        report = run.report()

    assert (report.state, report.outcome.kind, report.attempts) == ("cancelled", "cancelled", 1)


async def test_a_cancellation_during_the_last_steps_changes_no_outcome(tmp_path: Path) -> None:
    begun, go_on = tmp_path / "begun", tmp_path / "go_on"
    source = f"""
import pathlib, time
def explain():
    pathlib.Path({str(begun)!r}).touch()
    while not pathlib.Path({str(go_on)!r}).exists():
        time.sleep(0.01)
"""
    steps = {"lifecycle_tools": [{"trigger": "on_fail", "file": "explain.py", "function": "explain"}]}
    folder = package(tmp_path, tools=steps)
    write_tool(folder, "explain.py", source)
    settings = load_settings({"UNATTENDED_MAX_ATTEMPTS": "1"})
    request = Request(script={"answers": {"A": [FAST_FAIL]}})

    async with asyncio.timeout(20), open_local_run(chosen_package(folder, settings), request, settings) as run:
        task = asyncio.create_task(run.work())
        while not begun.exists():  # noqa: ASYNC110 -- what a thread does sets no event of asyncio
            await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.sleep(0)
        go_on.touch()
        with pytest.raises(asyncio.CancelledError):
            await task
        report = run.report()

    assert (report.state, report.outcome.kind) == ("parked", "model_error")


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ({"answers": {"A": [{"txt": "x"}]}}, r"the script: answers.A\[0\].txt"),
        ({"answers": {"A": "x"}}, "the script: write answers"),
        ({"answers": {"A": [{}]}}, r"the script: answers.A\[0\] is empty"),
        ({"default": {"text": object()}}, "not plain data"),
        (Path("/nowhere/answers.yaml"), "/nowhere/answers.yaml cannot be read"),
    ],
)
async def test_a_script_that_cannot_be_read_is_refused_with_its_place(tmp_path: Path, script: Any, said: str) -> None:
    with pytest.raises(WrongUseError, match=said):
        await run_package_async(package(tmp_path), script=script)


async def test_input_that_no_run_could_hold_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WrongUseError, match="beyond 64 bits"):
        await run_package_async(package(tmp_path), script=DONE, input={"n": 2**70})


async def test_a_package_with_errors_is_not_started(tmp_path: Path) -> None:
    folder = package(tmp_path, orchestrator={"workflow_name": "Small", "initial_agent": "Nobody"})

    with pytest.raises(NotStartedError, match=r"Small is not started: error: .*unknown_agent.*unattended validate"):
        await run_package_async(folder, script=DONE)


async def test_an_invalid_package_is_reported(tmp_path: Path) -> None:
    package(tmp_path / "flows")

    with pytest.raises(WrongUseError, match="does not exist"):
        await run_package_async(tmp_path / "absent", script=DONE)
    with pytest.raises(WrongUseError, match="holds 1 packages; name one"):
        await run_package_async(tmp_path / "flows", script=DONE)
    with pytest.raises(NotStartedError, match="is not a package"):
        await run_package_async(tmp_path, script=DONE)
    with pytest.raises(WrongUseError, match=r"there is no package Absent.*DailyDigest"):
        await run_package_async("Absent", script=DONE)


async def test_a_folder_beside_the_user_goes_before_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_package(tmp_path / "DailyDigest", orchestrator={"workflow_name": "Mine", "initial_agent": "A"}, handoffs=PAIR)
    monkeypatch.chdir(tmp_path)

    report = await run_package_async("DailyDigest", script=DONE)

    assert report.workflow == "Mine"
    assert report.state is RunState.SUCCEEDED


def clerk_and_writer(folder: Path) -> Path:
    agents = [{"name": name, "system_message": "You are."} for name in ("Clerk", "Writer")]
    rules = {"handoff_rules": [rule("Clerk", "Writer"), rule("Writer", "terminate")]}
    first = {"workflow_name": "Small", "initial_agent": "Clerk"}
    return write_package(folder / "Small", agents=agents, handoffs=rules, orchestrator=first)


def test_a_value_under_a_name_that_the_package_lacks_is_noted(tmp_path: Path) -> None:
    script = {"answers": {"Alice": [{"text": "x"}]}, **DONE}

    report = run_package(
        clerk_and_writer(tmp_path), script=script, input={"order": 7}, ui_responses={"ask": {"ok": True}}
    )

    assert report.succeeded
    assert report.notes == (
        "input: order reaches nothing: the package takes none",
        "ui_responses: ask answers nothing: there are none",
        "script: Alice is no agent: there are Clerk, Writer, group_manager",
    )


@pytest.mark.parametrize(
    ("names", "noted"),
    [(("Clark", "Writer"), ["Clark"]), (("Clerk", "Writer", "Writers"), []), (("Writer", "Concierge"), [])],
    ids=["a slip of the hand", "of another package, though alike", "of another package"],
)
def test_a_script_may_serve_several_packages(tmp_path: Path, names: tuple[str, ...], noted: list[str]) -> None:
    script = {"answers": {name: [{"text": "x"}] for name in names}, **DONE}

    report = run_package(clerk_and_writer(tmp_path), script=script)

    assert [note.split()[1] for note in report.notes] == noted


def test_a_misspelt_argument_is_refused(tmp_path: Path) -> None:
    misspelt: Any = {"scripts": DONE}
    with pytest.raises(WrongUseError, match="scripts: no such argument; there are script, input"):
        run_package(write_package(tmp_path / "Small"), **misspelt)


def test_a_chat_id_fixes_what_chance_chooses(tmp_path: Path) -> None:
    agents = [{"name": name, "system_message": "You are."} for name in "ABCD"]
    folder = package(tmp_path, agents=agents, handoffs=None, orchestrator=RANDOM)
    script = {"answers": {name: [{"text": f"{name}{turn}"} for turn in range(7)] for name in "ABCD"}}

    spoken = [run_package(folder, script=script, chat_id=chat).speakers for chat in ("one", "one", "two")]

    assert spoken[0] == spoken[1] != spoken[2]
    assert len(spoken[0]) == 7


async def test_a_tools_change_of_the_directory_is_noted_and_undone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Packages and scripts with relative paths are still found."""
    tools = [{"agent": agent, "file": f"{name}.py", "function": name} for agent, name in (("A", "move"), ("B", "look"))]
    folder = package(tmp_path, tools={"tools": tools})
    write_tool(folder, "move.py", "import os\n\ndef move():\n    os.chdir('/')\n    return 'moved'\n")
    write_tool(folder, "look.py", "import os\n\ndef look():\n    return os.getcwd()\n")
    script = {
        "answers": {
            agent: [{"tool_calls": [{"name": name}]}, {"text": "done"}]
            for agent, name in (("A", "move"), ("B", "look"))
        }
    }
    monkeypatch.chdir(tmp_path)

    report = await run_package_async(Path("Small"), script=script)

    assert report.state == RunState.SUCCEEDED
    first, second = report.turns
    assert [each["type"] for each in first.errors] == ["WorkingDirectoryChanged"]
    assert second.tool_calls[0].result == str(tmp_path)
    assert Path.cwd() == tmp_path


async def test_a_run_without_a_variable_that_its_package_requires_asks_no_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    orchestrator = {"workflow_name": "Small", "initial_agent": "A", "requires": {"env": ["SMALL_HOOK"]}}
    source = "import os\n\nHOOK = os.environ['SMALL_HOOK']\n\ndef act():\n    return HOOK\n"
    folder = with_tool(tmp_path, source, orchestrator=orchestrator)
    script = {"answers": {"A": [calls(), {"text": "done"}]}, **DONE}

    monkeypatch.delenv("SMALL_HOOK", raising=False)
    without = await run_package_async(folder, script=script)
    monkeypatch.setenv("SMALL_HOOK", "a-value-of-this-machine")
    production = await run_package_async(folder, script=script, production=True)

    assert (without.state, without.outcome.kind, without.usage) == ("failed", "package_error", ())
    assert "SMALL_HOOK is not set, and Small requires it" in without.outcome.reason
    assert production.succeeded, production.outcome
    assert "a-value-of-this-machine" not in json.dumps(production.as_json())


async def test_a_verbose_log_of_a_run_shows_no_hidden_value(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A worker hides values in its log; the test of a package does not."""
    caplog.set_level("INFO")
    source = {"type": "static", "value": "the secret-value is out"}
    folder = package(tmp_path, context_variables={"definitions": {"note": {"type": "string", "source": source}}})
    settings = load_settings({"CONTEXT_VERBOSE_DEBUG": "1"})
    request = Request(script=DONE)
    async with open_local_run(
        chosen_package(folder, settings), request, settings, redactor=Redactor(["secret-value"])
    ) as run:
        await run.work()

    loaded = next(each for each in caplog.records if each.getMessage() == "context_loaded")
    assert vars(loaded)["values"]["note"] == "the (hidden) is out"
    assert "secret-value" not in str(list(map(vars, caplog.records)))
