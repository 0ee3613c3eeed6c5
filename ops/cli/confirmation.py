"""Confirmation of changes: the options, the prompt, and the line that reports the result."""

import sys
from collections.abc import Iterable, Mapping
from typing import Any

import click

from ops.cli.output import exit_with_error, print_json

dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would happen, and change nothing.")
yes_option = click.option("--yes", is_flag=True, help="Do not ask for confirmation; scripts need it.")


def confirm_or_exit(action: str, *, details: Iterable[str] = (), has_dry_run: bool = True) -> None:
    """Ask before a change; exit when the answer is no.

    Call it outside of an event loop, which would keep Ctrl-C from the prompt.
    """
    if not sys.stdin.isatty():
        preview = ", or --dry-run for a preview" if has_dry_run else ""
        raise click.UsageError(f"cannot ask whether to {action}, as stdin is not a terminal: use --yes{preview}")
    for line in details:
        click.echo(line, err=True)
    if not click.confirm(f"{action}?", err=True):
        exit_with_error("nothing was changed")


def print_result(text: str, data: Mapping[str, Any], *, as_json: bool) -> None:
    if as_json:
        print_json(data)
    else:
        click.echo(text)
