"""What the commands on budgets have in common: how one is named, and how a refusal is told."""

import click

SAID_NO = 1

BUDGET_ID = click.argument("budget_id", metavar="ID")


def unknown_budget(budget_id: str) -> SystemExit:
    from ops.cli.verdicts import printable

    said = f"there is no budget {printable(budget_id)}; `unattended budgets list` shows them"
    click.echo(f"unattended: {said}", err=True)
    return SystemExit(SAID_NO)
