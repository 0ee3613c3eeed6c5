"""`unattended runs answer` in a process of its own: the question, the recorded name, and the prompts."""

import asyncio
import getpass
import os
import pty
import socket
import subprocess
import threading
from contextlib import suppress
from typing import Any

import pytest

from tests.integration.ops.command import command, environment, unattended
from tests.integration.ops.console.open_questions import LARGER, MESSAGE, OLD, OUTCOME, REFUND
from tests.integration.stage import Document, Stage

pytestmark = pytest.mark.integration

NUMBERS = "--question is needed: questions 1, 2 and 3 wait; `unattended runs show "
YES = ("--response", "Refund.verdict=yes")


async def start_asking_run(stage: Stage, *questions: Document, **changes: Any) -> str:
    run_id = (await stage.accept("Desk", wake=False)).run_id
    kept = [{name: value for name, value in each.items() if value is not None} for each in questions]
    asked = {"state": "needs_human", "question": kept[0], "questions": kept, "outcome": OUTCOME, **changes}
    await stage.store.runs.update_one({"_id": run_id}, {"$set": asked})
    return run_id


async def test_an_answer_names_its_question_and_user_and_the_story_shows_both(stage: Stage) -> None:
    run_id = await start_asking_run(stage, MESSAGE, REFUND, LARGER)

    unnamed = await unattended(stage, "runs", "answer", run_id, *YES)
    nothing = await unattended(stage, "runs", "answer", run_id, "--question", "2")
    other = await unattended(stage, "runs", "answer", run_id, "--question", "7", *YES)
    messages = [each.err for each in (unnamed, nothing, other)]
    assert ([each.code for each in (unnamed, nothing, other)], messages[0].count(NUMBERS)) == ([2, 2, 1], 1)
    before = await unattended(stage, "runs", "show", run_id)
    first = await unattended(stage, "runs", "answer", run_id, "--question", "2", "--by", "the boss", *YES)
    again = await unattended(stage, "runs", "answer", run_id, "--question", "q_2", "--by", "the boss", *YES, "--json")
    after = await unattended(stage, "runs", "show", run_id)

    for expected in (
        REFUND["title"],
        LARGER["title"],
        '"amount": 5000',
        '"arrived broken"',
        "choices: yes, no, ask the",
    ):
        assert before.out.count(str(expected)) >= 1, before.out
    assert "NeedsHuman" not in before.out
    assert f"→ answer it: unattended runs answer {run_id} --question 2 --response Refund.verdict=…" in before.out
    assert first.out == f"{run_id} has answer 2; questions 1 and 3 wait for an answer\n"
    assert again.json == {"run_id": run_id, "answer": 2, "repeated": True, "waiting": [1, 3]}
    [kept] = (await stage.run(run_id))["answers"]
    assert (kept["number"], kept["by"], kept["name"]) == (
        2,
        f"{getpass.getuser()}@{socket.gethostname()}",
        "the boss",
    )
    assert f'answer 2 by {kept["by"]} ("the boss"), ' in after.out
    assert f"to {REFUND['title']} [pay(" in after.out
    assert "--question 2" not in after.out


async def test_on_a_terminal_every_question_is_shown_and_answered_one_by_one(stage: Stage) -> None:
    run_id = await start_asking_run(stage, MESSAGE, REFUND, LARGER)

    seen = await dialogue(
        stage,
        (run_id,),
        ("Message: ", "The shop's."),
        ("Refund.verdict (yes, no, ask the shop first): ", "perhaps"),
        ("is not one of", ""),
        ("Refund.verdict (yes, no, ask the shop first): ", "no"),
        ("Refund.verdict: ", "no"),
        ("Refund.why: ", "too much"),
    )

    assert REFUND["title"] in seen
    assert f"{run_id} has answer 1; questions 2 and 3 wait for an answer" in seen
    assert seen.endswith(f"{run_id} has answer 3, and continues\r\n0")
    run = await stage.run(run_id)
    assert run["state"] == "queued"
    assert [each.get("message") or each["responses"]["Refund"] for each in run["answers"]] == [
        "The shop's.",
        {"verdict": "no"},
        {"verdict": "no", "why": "too much"},
    ]


async def test_on_a_terminal_an_answer_without_its_question_is_confirmed_first(stage: Stage) -> None:
    one, several = await start_asking_run(stage, REFUND), await start_asking_run(stage, REFUND, LARGER)

    refused = await dialogue(
        stage, (one, *YES), ('Answer question 2 with {"Refund": {"verdict": "yes"}}? [y/N]: ', "n")
    )
    assert (await stage.run(one))["answers"] == []
    agreed = await dialogue(stage, (one, *YES), ("[y/N]: ", "y"))
    chosen = await dialogue(stage, (several, *YES, "--response", "Refund.why=it broke"), ("(2, 3): ", "3"))

    assert refused.endswith("nothing was answered\r\n1")
    assert REFUND["title"] in refused
    assert agreed.endswith(f"{one} has answer 2, and continues\r\n0")
    assert chosen.endswith(f"{several} has answer 3; question 2 waits for an answer\r\n0")


async def test_a_question_of_an_older_version_is_shown_and_answered(stage: Stage) -> None:
    answers = [{"by": "ann (cli)", "message": "yes", "turn": 1}]
    run_id = await start_asking_run(stage, {**OLD, "number": 2}, answers=answers)
    await stage.store.runs.update_one({"_id": run_id}, {"$unset": {"questions": ""}})

    shown = await unattended(stage, "runs", "show", run_id)
    answered = await unattended(stage, "runs", "answer", run_id, "--question", "2", "--response", "Card.ok=true")

    assert "answer by ann (cli)" in shown.out
    assert "--question 2 --response Card.KEY=…" in shown.out
    assert answered.out == f"{run_id} has answer 2, and continues\n"
    assert (await stage.run(run_id))["answers"][1]["responses"] == {"Card": {"ok": True}}


async def dialogue(stage: Stage, arguments: tuple[str, ...], *typed: tuple[str, str]) -> str:
    """Type into a terminal after each prompt; return the screen with the exit code at its end."""
    return await asyncio.to_thread(_dialogue, stage, arguments, typed)


def _dialogue(stage: Stage, arguments: tuple[str, ...], typed: tuple[tuple[str, str], ...]) -> str:
    ours, theirs = pty.openpty()
    answer = command("runs", "answer", *arguments)
    process = subprocess.Popen(answer, env=environment(stage), stdin=theirs, stdout=theirs, stderr=theirs)
    os.close(theirs)
    too_late = threading.Timer(60, process.kill)
    too_late.start()
    seen, at = b"", 0
    with suppress(OSError):  # the terminal ends with its last process
        for prompt, text in typed:
            while prompt.encode() not in seen[at:]:
                seen += os.read(ours, 4096)
            at = seen.index(prompt.encode(), at) + len(prompt.encode())
            if text:
                os.write(ours, text.encode() + b"\n")
        while more := os.read(ours, 4096):
            seen += more
    os.close(ours)
    too_late.cancel()
    return f"{seen.decode()}{process.wait(30)}"
