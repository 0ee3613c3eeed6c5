"""Prompts on a terminal: which question is meant, and what its answer is."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

import click

from ops.cli.json_argument import JsonArgumentError, json_object
from ops.cli.runs.asking import SAID_NO
from ops.cli.runs.question_lines import lines_of_question
from ops.cli.verdicts import printable
from workers.control.questions import question_key, question_name

Question = Mapping[str, Any]


def show_questions(questions: Sequence[Question]) -> None:
    for question in questions:
        for line in lines_of_question(question):
            click.echo(line, err=True)


def prompt_which(questions: Sequence[Question], said: str) -> int | str:
    """The question that an answer of the command line is for, as it was shown."""
    show_questions(questions)
    if len(questions) == 1:
        if not click.confirm(f"Answer question {questions[0]['number']} with {printable(said)}?", err=True):
            click.echo("nothing was answered", err=True)
            raise SystemExit(SAID_NO)
        return question_name(questions[0])
    names = {str(question["number"]): question_name(question) for question in questions}
    label = f"Which question has the answer {printable(said)}?"
    return names[click.prompt(label, type=click.Choice(list(names)), err=True)]


def prompt_answer(question: Question) -> dict[str, Any]:
    """`message` or `responses`, for this question."""
    if question["kind"] == "message":
        return {"message": click.prompt("Message", err=True)}
    tool, choices = str(question["tool"]), question.get("choices")
    awaited = list(question.get("keys") or ())
    if not (choices or awaited):
        label = f'{printable(tool)}, as JSON such as {{"approved": true}}'
        return {"responses": {tool: click.prompt(label, err=True, value_proc=_object)}}
    keys: dict[str, Any] = {}
    if choices:
        first = question_key(question)
        keys[first] = _prompt_choice(tool, first, choices)
    for key in awaited:
        if key not in keys:
            keys[key] = value_of(click.prompt(printable(f"{tool}.{key}"), err=True))
    return {"responses": {tool: keys}}


def _prompt_choice(tool: str, key: str, choices: Sequence[str]) -> str:
    """A choice is offered without what steers a terminal, and sent as it is."""
    offered = {printable(choice): choice for choice in choices}
    return offered[click.prompt(printable(f"{tool}.{key}"), type=click.Choice(list(offered)), err=True)]


def _object(text: str) -> dict[str, Any]:
    try:
        return json_object(text)
    except JsonArgumentError as error:
        raise click.UsageError(str(error)) from None  # asked again


def value_of(text: str) -> Any:
    """The text 7 is written "7", in quotes that the shell leaves alone."""
    try:
        return json.loads(text, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return text


def _no_constant(name: str) -> Any:
    raise ValueError(name)
