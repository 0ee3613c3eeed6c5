"""A question as lines for people: who asks what, and the command that answers it."""

import json
import shlex
from collections.abc import Iterator, Mapping
from typing import Any

from ops.cli.turn_lines import shown
from ops.cli.verdicts import printable

MAX_LINES = 40


def question_lines(run: Mapping[str, Any]) -> Iterator[str]:
    """Of a run as JSON; nothing when it asks nothing."""
    question = run.get("question")
    if not question or run["state"] != "needs_human":
        return
    yield f"question {question['number']}, {_asked_by(question)}:"
    for line in question["text"].splitlines()[:MAX_LINES]:
        yield f"   {printable(line)}"
    if question.get("payload") is not None:
        yield f"   shows {shown(question['payload'])}"
    if question.get("also"):
        yield f"   {printable(', '.join(question['also']))} of the same turn waits as well, and may be answered with it"


def _asked_by(question: Mapping[str, Any]) -> str:
    if not question["turn"]:
        return "before the first turn"
    return printable(f"of {question.get('agent') or 'user'} in turn {question['turn']}")


def answering_command(run_id: str, question: Mapping[str, Any]) -> str:
    """To be copied, with what is to be said in place of each … Nothing in it steers a terminal."""
    command = f"unattended runs answer {printable(run_id)}"
    if question["kind"] == "message":
        return f'{command} --message "…"'
    tool, keys = printable(str(question["tool"])), [printable(key) for key in question.get("keys") or ["KEY"]]
    if set(tool) & set(".=") or any("=" in key for key in keys):
        responses = json.dumps({tool: dict.fromkeys(keys, "…")}, ensure_ascii=False)
        return f"{command} --json-responses {shlex.quote(responses)}"
    return " ".join([command, *(f"--response {shlex.quote(f'{tool}.{key}')}=…" for key in keys)])
