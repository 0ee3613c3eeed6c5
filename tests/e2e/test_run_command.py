"""`unattended run` from a shell: one process, no service, no network, and exit codes for scripts."""

import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.e2e.product import COMMAND, descendants, environment, is_alive, one_line, unattended, wait_until
from tests.unit.ops.test_run_guide import write_guide
from tests.unit.workflows.packages import rule, write_package, write_tool

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(120)]

LIBRARY = Path(__file__).resolve().parents[2] / "workflows" / "library"
ANSWERS = LIBRARY / "answers.yaml"
ORDER = '{"order": {"status": "paid", "total": 120}}'
PAIR = {"handoff_rules": [rule("A", "B"), rule("B", "terminate")]}
# Addresses of services that do not exist, in case a service is called.
NOWHERE = {
    "UNATTENDED_MONGODB_URL": "mongodb://127.0.0.1:9/?serverSelectionTimeoutMS=100",
    "UNATTENDED_REDIS_URL": "redis://127.0.0.1:9/0",
    "HTTP_PROXY": "http://127.0.0.1:9",
    "HTTPS_PROXY": "http://127.0.0.1:9",
}


def run(*arguments: str, cwd: Path, env: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    return unattended("run", *arguments, cwd=cwd, env=env)


def write_small_package(folder: Path, tool: str | None = None, **files: Any) -> Path:
    """Write a package that hands over from A to B; a tool belongs to A."""
    if tool is not None:
        files["tools"] = [{"agent": "A", "file": "act.py", "function": "act", "description": "acts"}]
    target = write_package(folder / "Small", **{"handoffs": PAIR, **files})
    if tool is not None:
        write_tool(target, "act.py", tool)
    return target


def script(folder: Path, **body: Any) -> str:
    path = folder / "script.json"
    path.write_text(json.dumps({"default": {"text": "done"}, **body}), encoding="utf-8")
    return str(path)


ACT = {"tool_calls": [{"name": "act", "arguments": {}}]}


@pytest.mark.parametrize("name", ["DailyDigest", str(LIBRARY / "DailyDigest")])
@pytest.mark.parametrize("surroundings", [{}, NOWHERE], ids=["no settings", "settings that lead nowhere"])
def test_a_shipped_package_by_name_and_by_path_without_any_service(
    tmp_path: Path, name: str, surroundings: dict[str, str]
) -> None:
    began = time.perf_counter()

    done = run(name, "--script", str(ANSWERS), "--json", cwd=tmp_path, env=environment(**surroundings))

    print(f"a scripted run from the shell: {time.perf_counter() - began:.2f} s")  # noqa: T201 -- shown by -rP
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["outcome"]["kind"] == "completed"
    assert report["state"] == "succeeded"
    assert [turn["agent"] for turn in report["turns"]] == ["Collector", "Writer"]
    assert report["turns"][0]["tool_calls"][0]["name"] == "read_numbers"
    assert report["turns"][0]["handoff"] == "Writer"
    assert report["context"]["numbers"]["orders"] == 128
    assert sum(call["input_tokens"] for call in report["usage"]) == 410 + 520 + 610
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == [], "the run left something in the user's directory"


def test_without_a_script_the_shipped_answers_are_used_as_by_a_worker(tmp_path: Path) -> None:
    done = run("OrderFollowUp", "--input", '{"order_id": "7"}', "--context", ORDER, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert "1. Reviewer → Correspondent" in done.stdout
    assert 'calls note_follow_up({"kind": "thank_you"}) → noted: thank_you' in done.stdout
    assert "USD 0.00" in done.stdout


def test_what_only_a_database_has_is_asked_for(tmp_path: Path) -> None:
    done = run("OrderFollowUp", "--input", '{"order_id": "7"}', cwd=tmp_path)

    assert done.returncode == 1
    assert "failed, package_error: order from shop.orders" in done.stdout
    assert "--context" in done.stdout


def test_no_server_is_started(tmp_path: Path) -> None:
    package = write_small_package(tmp_path)
    answers = script(tmp_path, answers={"B": [{"text": "x", "delay_s": 1}]})

    with in_background(str(package), "--script", answers, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stdout.readline().startswith("1. A → B")
        children = descendants(process.pid)
        listening = [each for each in psutil.Process(process.pid).net_connections() if each.status == "LISTEN"]
        process.wait(20)

    assert process.returncode == 0
    assert (children, listening) == ([], [])


@contextmanager
def in_background(*arguments: str, cwd: Path, **options: Any) -> Iterator[subprocess.Popen[str]]:
    piped: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    process = subprocess.Popen([COMMAND, "run", *arguments], cwd=cwd, env=environment(), text=True, **piped)
    try:
        yield process
    finally:
        process.kill()
        process.communicate(timeout=20)


@pytest.mark.parametrize(
    "arguments",
    [
        ["Absent"],
        ["DailyDigest", "--input", "{"],
        ["DailyDigest", "--input", "@absent.json"],
        ["DailyDigest", "--script", "absent.yaml"],
        ["DailyDigest", "--models", "absent.yaml"],
    ],
    ids=" ".join,
)
def test_wrong_use_is_one_line_and_exit_code_2(tmp_path: Path, arguments: list[str]) -> None:
    done = run(*arguments, cwd=tmp_path)

    assert (done.returncode, done.stdout) == (2, "")
    assert one_line(done.stderr).startswith("unattended: ")


def test_an_unknown_option_is_exit_code_2(tmp_path: Path) -> None:
    assert run("DailyDigest", "--nonsense", cwd=tmp_path).returncode == 2


def test_a_package_with_a_finding_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    broken = write_small_package(
        tmp_path / "broken", orchestrator={"workflow_name": "Small", "initial_agent": "Nobody"}
    )

    done = run(str(broken), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert "[unknown_agent]" in one_line(done.stderr)


def test_a_package_with_missing_requirements_is_one_line_and_exit_code_1(tmp_path: Path) -> None:
    blocked = write_small_package(tmp_path / "blocked")
    (blocked / "extended_orchestration").mkdir()
    (blocked / "extended_orchestration" / "task_batches.yaml").write_text("batches: [{id: one}]")

    done = run(str(blocked), cwd=tmp_path)

    assert (done.returncode, done.stdout) == (1, "")
    assert "[task_batches]" in one_line(done.stderr)


def test_a_script_is_refused_with_its_file_its_place_and_its_field(tmp_path: Path) -> None:
    (tmp_path / "answers.yaml").write_text("answers: {Writer: [{text: x}, {txt: y}]}")

    done = run("DailyDigest", "--script", "answers.yaml", cwd=tmp_path)

    assert done.returncode == 2
    assert "answers.yaml: answers.Writer[1].txt" in one_line(done.stderr)


def test_a_run_that_fails_is_exit_code_1_with_json_as_well(tmp_path: Path) -> None:
    package = write_small_package(tmp_path)

    done = run(str(package), "--script", script(tmp_path, default={"error": {"status": 400}}), "--json", cwd=tmp_path)

    report = json.loads(done.stdout)
    assert done.returncode == 1
    assert (report["state"], report["outcome"]["kind"]) == ("failed", "model_error")
    assert [call["ok"] for call in report["usage"]] == [False]


def test_stdout_is_json_only_whatever_a_tool_and_its_children_print(tmp_path: Path) -> None:
    package = write_small_package(
        tmp_path, "import os\n\ndef act():\n    print('one')\n    os.write(1, b'two')\n    os.system('echo three')\n"
    )

    done = run(str(package), "--script", script(tmp_path, answers={"A": [ACT, {"text": "x"}]}), "--json", cwd=tmp_path)

    assert json.loads(done.stdout)["state"] == "succeeded"
    assert {"one", "two", "three"} <= set(done.stderr.replace("two", "two\n").split())


def test_a_tool_failure_is_reported_once_with_its_place(tmp_path: Path) -> None:
    package = write_small_package(tmp_path, "def act():\n    raise ValueError('boom')\n")

    done = run(str(package), "--script", script(tmp_path, answers={"A": [ACT, {"text": "x"}]}), cwd=tmp_path)

    assert done.returncode == 0
    assert "! tool act: ValueError: boom (tools/act.py:2, in act)" in done.stdout
    assert "Traceback" not in done.stdout
    assert done.stderr == ""


def test_in_production_no_environment_variable_is_there(tmp_path: Path) -> None:
    definitions = {"flag": {"type": "string", "source": {"type": "config", "env_var": "SMALL_FLAG"}}}
    tool = "import os\n\ndef act():\n    print(os.environ['SMALL_FLAG'])\n    return os.environ['SMALL_FLAG']\n"
    package = write_small_package(tmp_path, tool, context_variables={"definitions": definitions})
    command = (str(package), "--script", script(tmp_path, answers={"A": [ACT, {"text": "x"}]}), "--json")
    env = environment(SMALL_FLAG="a-value-of-this-machine")

    development = run(*command, cwd=tmp_path, env=env)
    production = run(*command, "--production", cwd=tmp_path, env=env)

    assert json.loads(development.stdout)["context"]["flag"] == "a-value-of-this-machine"
    assert "flag" not in json.loads(production.stdout)["context"]
    assert "a-value-of-this-machine" not in production.stdout + production.stderr


@pytest.mark.parametrize("tool", ["import time\n\ndef act():\n    time.sleep(60)\n", "async def act(): ...\n"])
def test_ctrl_c_cancels_the_run_calls_its_last_steps_and_leaves_nothing(tmp_path: Path, tool: str) -> None:
    """Interrupt a run in a tool that hangs in C code, and in a model that does not answer."""
    last = [{"trigger": moment, "file": "last.py", "function": moment} for moment in ("after_chat", "on_fail")]
    tools = {
        "tools": [{"agent": "A", "file": "act.py", "function": "act", "description": "acts"}],
        "lifecycle_tools": last,
    }
    package = write_small_package(tmp_path, tools=tools)
    write_tool(package, "act.py", "print('begun', flush=True)\n" + tool)
    marks = "".join(
        f"def {each['trigger']}(): open({str(tmp_path / each['trigger'])!r}, 'w').close()\n" for each in last
    )
    write_tool(package, "last.py", marks)
    answers = script(tmp_path, answers={"A": [ACT, {"text": "x", "delay_s": 600}]})

    with in_background(str(package), "--script", answers, "--json", cwd=tmp_path) as process:
        assert process.stderr is not None
        assert process.stderr.readline() == "begun\n"
        time.sleep(0.5)  # the call has begun
        family = [psutil.Process(process.pid), *descendants(process.pid)]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)

    report = json.loads(out)
    assert process.returncode == 130, err
    assert (report["state"], report["outcome"]["kind"]) == ("cancelled", "cancelled")
    assert "Traceback" not in err
    assert {each["trigger"] for each in last} <= {path.name for path in tmp_path.iterdir()}
    assert not any(is_alive(each) for each in family)


def test_a_reader_that_leaves_does_not_end_the_run_with_a_traceback(tmp_path: Path) -> None:
    package = write_small_package(tmp_path, "def act(): open('acted', 'w').close()\n")
    answers = script(tmp_path, answers={"A": [{"text": "x"}], "B": [{"text": "y", "delay_s": 0.5}]})

    with in_background(str(package), "--script", answers, cwd=tmp_path) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline().startswith("1. A → B")
        process.stdout.close()
        err = process.stderr.read()
        process.wait(20)
        process.stdout = None

    assert process.returncode == 0
    assert err == ""


def test_on_a_terminal_each_turn_appears_when_it_is_committed(tmp_path: Path) -> None:
    package = write_small_package(tmp_path)
    answers = script(tmp_path, answers={"B": [{"text": "late", "delay_s": 2}]})
    ours, theirs = pty.openpty()
    shown = b""

    def read() -> bytes:
        nonlocal shown
        shown += os.read(ours, 4096)
        return shown

    with in_background(str(package), "--script", answers, cwd=tmp_path, stdout=theirs) as process:
        os.close(theirs)
        wait_until("the first turn is shown", lambda: b"1. A" in read(), within_s=20)
        assert process.poll() is None, "it was shown at the end only"
        assert b"2. B" not in shown
        wait_until("the end is shown", lambda: b"succeeded, completed" in read(), within_s=20)
        process.wait(20)
    os.close(ours)

    assert b"\x1b[" in shown


def test_the_guides_tests_pass_under_pytest(tmp_path: Path) -> None:
    """Run in an author's folder, which has its own directory `workflows` beside the tests."""
    write_guide(tmp_path)

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-W", "error::ResourceWarning", "-p", "no:asyncio", "tests"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert "4 passed" in done.stdout


def test_other_commands_do_not_load_agents(tmp_path: Path) -> None:
    code = (
        "import sys, unattended; unattended.bind_packages(); import ops.cli.main; "
        "lazy = ('ag2', 'openai', 'workflows.chat', 'workers.local_run.run_package'); "
        "print([name for name in lazy if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"
