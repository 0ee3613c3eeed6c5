"""`unattended runs answer`: says what a person has to say, and lets the run go on."""

import json
import sys
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.completing import completed_by, runs
from ops.cli.json_argument import JsonArgumentError, json_object
from ops.cli.output import json_option, print_json
from ops.cli.runs.asking import refusals_in_one_line, who_asks
from ops.cli.runs.question_lines import question_lines
from ops.cli.runs.waking import waking
from ops.cli.session import with_database
from workers.control.errors import RefusedError, RunNotFoundError

if TYPE_CHECKING:
    from workers.control.answer import Answered
    from workers.settings import Settings

Responses = dict[str, dict[str, Any]]


@command(
    "answer",
    examples=[
        "unattended runs answer 8C0A2F --message 'Go ahead.'",
        "unattended runs answer 8C0A2F --response approve.verdict=yes",
        'unattended runs answer 8C0A2F --json-responses \'{"approve": {"verdict": "yes"}}\'',
    ],
    related=["runs list", "runs show"],
)
@click.argument("run_id", shell_complete=completed_by(runs("needs_human")))
@click.option("-m", "--message", help="What the user says.")
@click.option(
    "--response",
    "texts",
    multiple=True,
    metavar="TOOL.KEY=VALUE",
    help="What a tool gets; repeat it. VALUE is JSON where it is JSON, else text.",
)
@click.option("--json-responses", metavar="JSON|@file", help='All at once: {"tool": {"key": value}}.')
@click.option("--by", help="Who answers. Default: your name on this machine.")
@json_option
def answer(run_id: str, as_json: bool, message: str | None, by: str | None, **given: Any) -> None:
    """Answers a run that waits for a person; it then goes on.

    It goes on where it stands. Without an answer on the command line, shows the question and asks for one.
    """
    responses = _responses(given["json_responses"], given["texts"])
    said = {"by": by if by is not None else who_asks(), "message": message, "responses": responses or None}
    with refusals_in_one_line():
        if message is None and not responses:
            said |= _asked_here(run_id)
        answered = with_database(lambda database, settings: _answer(database, settings, run_id, said), redis=True)
    if as_json:
        print_json({"run_id": answered.run_id, "answer": answered.number, "repeated": answered.repeated})
        return
    again = "  (it has this answer already; nothing was changed)" if answered.repeated else ""
    click.echo(f"{answered.run_id} has answer {answered.number}, and goes on{again}")


def _responses(json_text: str | None, texts: Iterable[str]) -> Responses:
    responses = {tool: dict(keys) for tool, keys in _from_json(json_text).items()}
    for text in texts:
        tool, key, value = _parts(text)
        responses.setdefault(tool, {})[key] = value
    return responses


def _from_json(text: str | None) -> Responses:
    if text is None:
        return {}
    try:
        given = json_object(text)
    except JsonArgumentError as error:
        raise click.BadParameter(str(error), param_hint="--json-responses") from None
    for tool, keys in given.items():
        if not isinstance(keys, dict):
            message = f'{tool}: write keys and values, such as {{"{tool}": {{"approved": true}}}}'
            raise click.BadParameter(message, param_hint="--json-responses")
    return given


def _parts(text: str) -> tuple[str, str, Any]:
    name, equals, value = text.partition("=")
    tool, dot, key = name.partition(".")
    if not (tool and dot and key and equals):
        message = f"{text!r} is not TOOL.KEY=VALUE, such as approve.verdict=yes"
        raise click.BadParameter(message, param_hint="--response")
    return tool, key, _value(value)


def _value(text: str) -> Any:
    """Whoever means the text 7 writes "7", in quotes that the shell leaves alone."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> Any:
    raise ValueError(name)


def _asked_here(run_id: str) -> Mapping[str, Any]:
    """Shows the question and prompts for its answer; what is said answers this question and no later one."""
    if not sys.stdin.isatty():
        raise click.UsageError(
            f"say what to answer with --message, --response or --json-responses; `unattended runs show {run_id}`"
            " shows what is asked"
        )
    run = with_database(lambda database, _: _waiting(database, run_id))
    question = run["question"]
    for line in question_lines(run):
        click.echo(line, err=True)
    meant = {"question": question["number"]}
    if question["kind"] == "message":
        return {**meant, "message": click.prompt("Message", err=True)}
    tool = question["tool"]
    if question.get("keys"):
        keys = {key: _value(click.prompt(f"{tool}.{key}", err=True)) for key in question["keys"]}
    else:
        keys = click.prompt(f'{tool}, as JSON such as {{"approved": true}}', err=True, value_proc=_object)
    return {**meant, "responses": {tool: keys}}


def _object(text: str) -> dict[str, Any]:
    try:
        return json_object(text)
    except JsonArgumentError as error:
        raise click.UsageError(str(error)) from None  # asked again


async def _waiting(database: Any, text: str) -> dict[str, Any]:
    from workers.control.answer import instead
    from workers.control.naming import whole_run_id
    from workers.store.run_document import as_json
    from workers.store.run_store import RunStore

    store = RunStore(database)
    run_id = await whole_run_id(store, text)
    run = await store.find(run_id)
    if run is None:
        raise RunNotFoundError(run_id)
    if not run.get("question"):
        raise RefusedError(f"{run_id} {instead(run)}")
    return as_json(run)


async def _answer(database: Any, settings: "Settings", text: str, said: Mapping[str, Any]) -> "Answered":
    from workers.control.answer import UnfitAnswerError
    from workers.control.answer import answer as give_answer
    from workers.control.naming import whole_run_id
    from workers.store.run_store import RunStore

    store = RunStore(database, republish_after_s=settings.republish_after_s)
    async with waking(settings) as wake:
        try:
            return await give_answer(store, wake, await whole_run_id(store, text), **said)
        except UnfitAnswerError as error:
            raise click.UsageError(str(error)) from None
