"""`unattended budgets set` and `remove`."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from ops.cli.budgets.list_budgets_command import BUDGET_ID_ARGUMENT, unknown_budget_exit
from ops.cli.command import command
from ops.cli.completion import complete_with, find_apps, find_workflows
from ops.cli.output import json_option, print_json
from ops.cli.runs.run_options import operator_name
from ops.cli.session import with_database

if TYPE_CHECKING:
    from accounting.budgets.budget import Budget
    from accounting.budgets.budget_status import BudgetStatus
    from accounting.budgets.budget_store import BudgetChange, StoredBudget

_OPTIONS = {
    "app_id": "--app",
    "workflow": "--workflow",
    "window": "--per",
    "timezone": "--timezone",
    "soft": "--soft",
    "new_runs": "--new-runs",
    "running": "--running",
    "pause_triggers": "--pause-triggers",
    "note": "--note",
}
_INHERITED_FIELDS = ("timezone", "soft", "new_runs", "running", "pause_triggers", "note")


class _Amount(click.ParamType[Decimal]):
    name = "amount"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Decimal:
        try:
            return Decimal(str(value).replace("_", ""))
        except ArithmeticError:
            self.fail(f"{value!r} is no number; write it as 10, 0.5 or 2_000_000", param, ctx)


@command(
    "set",
    examples=[
        "unattended budgets set --app acme --per day --usd 10 --timezone Europe/Berlin",
        "unattended budgets set --app '*' --per month --tokens 50_000_000 --new-runs refuse",
        "unattended budgets set --workflow Digest --per hour --usd 2 --soft",
    ],
    related=["budgets list", "budgets remove"],
)
@click.option(
    "--app",
    "app_id",
    shell_complete=complete_with(find_apps),
    help="Whose: one app, or '*' for each app on its own. Without: all apps together.",
)
@click.option("--workflow", shell_complete=complete_with(find_workflows), help="Only of this workflow.")
@click.option("--per", "window", required=True, metavar="WINDOW", help="hour, day, month, total or run.")
@click.option("--usd", type=_Amount(), help="So many USD, such as 10 or 0.50.")
@click.option("--tokens", type=_Amount(), help="So many tokens, input and output together.")
@click.option("--timezone", metavar="ZONE", help="Whose hours, days and months: Europe/Berlin. Usual: UTC.")
@click.option("--soft/--hard", default=None, help="Warns, and stops nothing; or stops. Usual: --hard.")
@click.option("--new-runs", metavar="hold|refuse", help="When it is spent: they wait, or fail. Usual: hold.")
@click.option("--running", metavar="stop|hold", help="When it is spent: they end, or wait. Usual: stop.")
@click.option("--pause-triggers/--leave-triggers", default=None, help="When it is spent. Usual: --leave-triggers.")
@click.option("--note", help="Why, for whoever looks at it later.")
@json_option
def set_budget(as_json: bool, **values: Any) -> None:
    """Makes a budget, or changes one.

    That of the same app, workflow, window and unit is changed. What is not said stays as it is; of a new one it is
    as usual.
    """
    unit, limit = _parse_limit(values)
    asked = _parse_budget({**values, "unit": unit, "limit": limit})

    async def work(database: Any, _settings: object) -> "tuple[BudgetChange, Sequence[BudgetStatus], bool]":
        from accounting.budgets.budget_status import read_statuses
        from accounting.budgets.budget_store import BudgetStore

        budgets = BudgetStore(database)
        kept = await budgets.find(asked.id)
        budget = _parse_budget({**values, **_unchanged_fields(values, kept), "unit": unit, "limit": limit})
        done = await budgets.set(budget, by=operator_name())
        its = [each for each in await read_statuses(database) if each.budget.id == budget.id]
        return done, its, await _matches_no_call(database, budget)

    done, standings, of_nobody = with_database(work)
    if as_json:
        print_json({"how": done.kind, **done.stored.as_json(), "standings": [each.as_json() for each in standings]})
    else:
        _print_budget(done, standings, matches_no_call=of_nobody)


@command("remove", examples=["unattended budgets remove app:acme/day/usd"], related=["budgets list", "budgets set"])
@BUDGET_ID_ARGUMENT
@json_option
def remove_budget(budget_id: str, as_json: bool) -> None:
    """Removes a budget. Runs that it holds go on, triggers it has paused are resumed."""
    from accounting.budgets.budget_store import BudgetStore

    if not with_database(lambda database, _: BudgetStore(database).remove(budget_id)):
        raise unknown_budget_exit(budget_id)
    if as_json:
        print_json({"budget_id": budget_id, "removed": True})
    else:
        click.echo(f"{budget_id} is removed")


def _parse_limit(values: Mapping[str, Any]) -> tuple[str, Decimal]:
    usd, tokens = values["usd"], values["tokens"]
    if usd is not None and tokens is not None:
        raise click.UsageError("say --usd or --tokens: a budget has one unit; for both set two budgets")
    if usd is None and tokens is None:
        raise click.UsageError("say how much: --usd 10 or --tokens 2000000")
    return ("usd", usd) if tokens is None else ("tokens", tokens)


def _parse_budget(values: Mapping[str, Any]) -> "Budget":
    from accounting.budgets.budget import InvalidBudgetError, parse_budget

    fields = {name: value for name, value in values.items() if name not in ("usd", "tokens")}
    try:
        return parse_budget(**fields)
    except InvalidBudgetError as error:
        options = {**_OPTIONS, "limit": f"--{values['unit']}"}
        said = [f"{options.get(field, field)} {sentence}" for field, sentence in error.problems.items()]
        raise click.UsageError("; ".join(said)) from None


def _unchanged_fields(values: Mapping[str, Any], previous: "StoredBudget | None") -> dict[str, Any]:
    if previous is None:
        return {}
    return {name: getattr(previous.budget, name) for name in _INHERITED_FIELDS if values[name] is None}


async def _matches_no_call(database: Any, budget: "Budget") -> bool:
    """Where calls were made and none that it is about: a name that is misspelt limits nothing, and nobody notices."""
    from accounting.totals.usage_query import UsageFilter, usage_totals

    its = UsageFilter(app_id=None if budget.is_for_each_app else budget.app_id, workflow=budget.workflow)
    return not await usage_totals(database, [], its) and bool(await usage_totals(database, []))


def _print_budget(change: "BudgetChange", standings: "Sequence[BudgetStatus]", *, matches_no_call: bool) -> None:
    from accounting.budgets.budget import format_amount
    from ops.presenters.budget_text import describe_consequence, describe_limit

    budget = change.stored.budget
    how = {"created": "is made", "changed": "is changed", "unchanged": "is as it was"}[change.kind]
    click.echo(f"{budget.id} {how}: {describe_limit(budget)}")
    click.echo(describe_consequence(budget))
    if matches_no_call and change.kind == "created":
        click.echo("unattended: no model call that it limits was made yet; is its name right?", err=True)
    spent = [each for each in standings if each.is_exhausted]
    if spent and not budget.soft:
        apps = "1 app" if len(spent) == 1 else f"{len(spent):,} apps"
        whose = f"by {apps}" if budget.is_for_each_app else format_amount(budget.unit, spent[0].spent)
        click.echo(f"unattended: it is spent already, {whose}: `unattended budgets show {budget.id}`", err=True)
