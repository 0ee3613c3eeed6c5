"""Asking people before much is changed, and telling them what was."""

import sys
from collections.abc import Mapping
from typing import Any

import click

from ops.cli.output import print_json


def confirm(action: str) -> bool:
    """Outside of an event loop, which would keep Ctrl-C from the prompt."""
    if not sys.stdin.isatty():
        raise click.UsageError(f"nobody can be asked whether to {action}: say --yes, or look first with --dry-run")
    if click.confirm(f"{action}?", err=True):
        return True
    click.echo("unattended: nothing was changed", err=True)
    return False


def print_result(text: str, data: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(data)
    else:
        click.echo(text)


def pluralize(number: int, noun: str) -> str:
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{number} {noun if number == 1 else plural}"
