"""Completion: the scripts, their use by bash, and names that are found in time, or none without an error."""

import logging
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ops.cli import completion
from ops.cli.completion import Candidate, FindNames, complete_with
from tests.unit.ops.command_walk import all_commands

PROGRAM = "from ops.cli.main import run; run()"
ANYTHING: Any = SimpleNamespace()


def in_a_process(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", variables.pop("code", PROGRAM), *arguments]
    environment = {**os.environ, **variables}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)


@pytest.fixture(autouse=True)
def process_goes_on(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Do not end this process after a completion."""
    monkeypatch.setattr(completion, "_has_completed", threading.Event())
    yield
    logging.disable(logging.NOTSET)


def offered(find: FindNames, begun: str = "", *, timeout_s: float = 30.0) -> list[str]:
    """Allow more time on a busy machine."""
    return [each.value for each in complete_with(find, timeout_s=timeout_s)(ANYTHING, ANYTHING, begun)]


@pytest.mark.parametrize(
    ("shell", "says"),
    [("bash", "complete -o nosort -F"), ("zsh", "#compdef unattended"), ("fish", "complete --no-files --command")],
)
def test_a_shell_gets_its_script(shell: str, says: str) -> None:
    script = in_a_process("completion", shell).stdout

    assert says in script
    assert f"_UNATTENDED_COMPLETE={shell}_complete" in script


def test_bash_completes_commands_options_and_values(tmp_path: Path) -> None:
    """Runs the real bash, with the program on its PATH."""
    program = tmp_path / "unattended"
    program.write_text(f"#!{sys.executable}\n{PROGRAM}\n", encoding="utf-8")
    program.chmod(0o755)
    asked = [["ru"], ["runs", "ret"], ["runs", "list", "--out"], ["runs", "list", "--state", "needs"]]
    lines = "\n".join(
        f"COMPREPLY=(); COMP_WORDS=(unattended {' '.join(words)}); COMP_CWORD={len(words)};"
        ' _unattended_completion unattended; echo "${COMPREPLY[*]}"'
        for words in asked
    )
    script = f"complete() {{ :; }}; eval \"$(unattended completion bash)\"\nIFS=' '\n{lines}"
    path = f"{tmp_path}:{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "PYTHONPATH": str(Path.cwd())}

    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, check=True, timeout=60
    )

    assert done.stderr == ""
    assert done.stdout.splitlines() == ["run runs", "retry-now", "--outcome", "needs_human"]


def test_names_of_workflows_and_triggers_come_from_the_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = tmp_path / "workflows" / "Folder"
    package.mkdir(parents=True)
    (package / "orchestrator.yaml").write_text("workflow_name: Morning\ninitial_agent: A\n", encoding="utf-8")
    (package / "agents.yaml").write_text("agents: [{name: A, system_message: You are A.}]\n", encoding="utf-8")
    entries = "- {name: daily, type: schedule, cron: '@daily', apps: [acme]}\n- {name: hook, type: webhook}\n"
    (package / "triggers.yaml").write_text(f"triggers:\n{entries}", encoding="utf-8")
    monkeypatch.chdir(tmp_path)

    assert offered(completion.find_workflows) == ["Morning"]
    assert offered(completion.find_workflows, "Da") == []
    assert offered(completion.find_triggers) == ["Morning/daily", "Morning/hook"]
    assert offered(completion.find_triggers, "da") == ["daily"]
    assert offered(completion.find_trigger_names) == ["daily", "schedule", "hook", "webhook"]


def test_what_takes_longer_than_patience_completes_what_was_found_by_then() -> None:
    def slow(_begun: str) -> Iterator[Candidate]:
        yield "at-once", ""
        time.sleep(10)
        yield "too-late", ""

    began = time.monotonic()
    found = offered(slow, timeout_s=0.05)

    assert found == ["at-once"]
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("name", ["$(reboot)", "a;b", "a b", "`b`", "a|b", "~", "a\nb", "'", "a&", "!!", "*", "a>b"])
def test_a_name_that_a_shell_would_act_on_is_not_offered(name: str) -> None:
    def of_somebody_else(_begun: str) -> Iterator[Candidate]:
        yield from ((name, ""), (f"acme{name}", ""), ("Größe-1/a.b@c:d%20", ""))

    assert offered(of_somebody_else) == ["Größe-1/a.b@c:d%20"]


def test_what_fails_completes_what_was_found_by_then() -> None:
    def broken(_begun: str) -> Iterator[Candidate]:
        yield "found", ""
        raise OSError("away")

    assert offered(broken) == ["found"]


@pytest.mark.parametrize(
    "wrong",
    [
        {"UNATTENDED_LEASE_S": "x"},
        {"UNATTENDED_MONGODB_URL": "http://x"},
        {"UNATTENDED_MONGODB_URL": "mongodb://127.0.0.1:1/"},
        {"UNATTENDED_DATA_DIR": "/nowhere"},
    ],
    ids=str,
)
def test_completion_is_silent_about_what_is_wrong(wrong: dict[str, str]) -> None:
    words = {"_UNATTENDED_COMPLETE": "bash_complete", "COMP_WORDS": "unattended runs show", "COMP_CWORD": "3"}

    done = in_a_process(**words, **wrong)

    assert (done.stdout.strip(), done.stderr) == ("", "")


def test_completing_names_imports_no_library_that_it_does_not_need() -> None:
    code = """
import functools, sys
from ops.cli import completion as completing
completing.complete_with = functools.partial(completing.complete_with, timeout_s=30)
leave = completing.exit_if_completed
def tell():
    print("imported", sorted({"ag2", "openai", "celery", "rich", "fastapi", "asyncio"} & sys.modules.keys()))
    leave()
completing.exit_if_completed = tell
from ops.cli.main import run
run()
"""
    words = {"_UNATTENDED_COMPLETE": "bash_complete", "COMP_WORDS": "unattended packages show Daily", "COMP_CWORD": "3"}

    done = in_a_process(code=code, **words)

    assert done.stdout.splitlines() == ["plain,DailyDigest", "imported []"]


def test_names_are_completed_wherever_one_is_asked_for() -> None:
    named = {"app_id", "workflow", "run_id", "run_ids", "batch_id", "batch_ids", "key_id"}
    reasonless = [
        f"{path} {each.name}"
        for path, command in all_commands().items()
        for each in command.params
        if each.name in named and each._custom_shell_complete is None
    ]

    # `run` needs no app from the database.
    assert reasonless == ["run app_id"]
