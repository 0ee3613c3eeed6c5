"""What the commands on budgets have in common: how one is named, and how a refusal is told."""

import click

EXIT_FAILURE = 1

BUDGET_ID_ARGUMENT = click.argument("budget_id", metavar="ID")


def unknown_budget_exit(budget_id: str) -> SystemExit:
    from ops.cli.verdicts import to_printable

    said = f"there is no budget {to_printable(budget_id)}; `unattended budgets list` shows them"
    click.echo(f"unattended: {said}", err=True)
    return SystemExit(EXIT_FAILURE)
