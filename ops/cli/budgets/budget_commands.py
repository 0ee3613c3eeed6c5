"""`unattended budgets set` and `remove`."""

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from ops.cli.budgets.list_budgets_command import BUDGET_ID_ARGUMENT, exit_with_unknown_budget
from ops.cli.command import command
from ops.cli.completion import complete_with, find_apps, find_workflows
from ops.cli.database_session import with_database
from ops.cli.output import json_option, print_error, print_json
from ops.cli.runs.run_options import operator_name
from ops.presenters.amounts import pluralize

if TYPE_CHECKING:
    from accounting.budgets.budget import Budget
    from accounting.budgets.budget_status import BudgetStatus
    from accounting.budgets.budget_store import BudgetChange, StoredBudget

_OPTION_BY_FIELD = {
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
            self.fail(f"{value!r} is not a number; write it as 10, 0.5 or 2_000_000", param, ctx)


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
    help="One app, or '*' for a budget of each app. Default: one budget for all apps together.",
)
@click.option("--workflow", shell_complete=complete_with(find_workflows), help="Count only this workflow.")
@click.option("--per", "window", required=True, metavar="WINDOW", help="Window: hour, day, month, total or run.")
@click.option("--usd", type=_Amount(), help="Limit in USD, such as 10 or 0.50.")
@click.option("--tokens", type=_Amount(), help="Limit in tokens, input and output together.")
@click.option("--timezone", metavar="ZONE", help="Time zone of the window, such as Europe/Berlin. Default: UTC.")
@click.option("--soft/--hard", default=None, help="A soft budget only warns; a hard one stops runs. Default: --hard.")
@click.option("--new-runs", metavar="hold|refuse", help="New runs of a spent budget wait, or fail. Default: hold.")
@click.option("--running", metavar="stop|hold", help="Running runs of a spent budget end, or wait. Default: stop.")
@click.option(
    "--pause-triggers/--leave-triggers",
    default=None,
    help="Whether a spent budget pauses triggers. Default: --leave-triggers.",
)
@click.option("--note", help="A note for readers, such as the reason.")
@json_option
def set_budget(as_json: bool, **values: Any) -> None:
    """Creates or changes a budget.

    A budget of the same app, workflow, window and unit is changed; options that are left out keep their value. A new
    budget gets the defaults.
    """
    unit, limit = _parse_limit(values)
    requested = _parse_budget({**values, "unit": unit, "limit": limit})

    async def work(database: Any, _settings: object) -> "tuple[BudgetChange, Sequence[BudgetStatus], bool]":
        from accounting.budgets.budget_status import read_statuses
        from accounting.budgets.budget_store import BudgetStore

        budgets = BudgetStore(database)
        previous = await budgets.find(requested.id)
        budget = _parse_budget({**values, **_unchanged_fields(values, previous), "unit": unit, "limit": limit})
        change = await budgets.set(budget, by=operator_name())
        statuses = [status for status in await read_statuses(database) if status.budget.id == budget.id]
        return change, statuses, await _matches_no_call(database, budget)

    change, statuses, matches_no_call = with_database(work)
    if as_json:
        standings = [status.as_json() for status in statuses]
        print_json({"how": change.kind, **change.stored.as_json(), "standings": standings})
    else:
        _print_budget(change, statuses, matches_no_call=matches_no_call)


@command("remove", examples=["unattended budgets remove app:acme/day/usd"], related=["budgets list", "budgets set"])
@BUDGET_ID_ARGUMENT
@json_option
def remove_budget(budget_id: str, as_json: bool) -> None:
    """Removes a budget.

    Runs that it holds are released, and triggers that it paused are resumed.
    """
    from accounting.budgets.budget_store import BudgetStore

    if not with_database(lambda database, _: BudgetStore(database).remove(budget_id)):
        exit_with_unknown_budget(budget_id)
    if as_json:
        print_json({"budget_id": budget_id, "removed": True})
    else:
        click.echo(f"{budget_id} is removed")


def _parse_limit(values: Mapping[str, Any]) -> tuple[str, Decimal]:
    usd, tokens = values["usd"], values["tokens"]
    if usd is not None and tokens is not None:
        raise click.UsageError("use --usd or --tokens, not both: a budget has one unit; for both, set two budgets")
    if usd is None and tokens is None:
        raise click.UsageError("a limit is needed, such as --usd 10 or --tokens 2000000")
    return ("usd", usd) if tokens is None else ("tokens", tokens)


def _parse_budget(values: Mapping[str, Any]) -> "Budget":
    from accounting.budgets.budget import InvalidBudgetError, parse_budget

    fields = {name: value for name, value in values.items() if name not in ("usd", "tokens")}
    try:
        return parse_budget(**fields)
    except InvalidBudgetError as error:
        options = {**_OPTION_BY_FIELD, "limit": f"--{values['unit']}"}
        problems = [f"{options.get(field, field)} {sentence}" for field, sentence in error.problems.items()]
        raise click.UsageError("; ".join(problems)) from None


def _unchanged_fields(values: Mapping[str, Any], previous: "StoredBudget | None") -> dict[str, Any]:
    if previous is None:
        return {}
    return {name: getattr(previous.budget, name) for name in _INHERITED_FIELDS if values[name] is None}


async def _matches_no_call(database: Any, budget: "Budget") -> bool:
    """Whether calls exist but none that this budget counts, as with a misspelt name."""
    from accounting.totals.usage_query import UsageFilter, usage_totals

    own_calls = UsageFilter(app_id=None if budget.is_for_each_app else budget.app_id, workflow=budget.workflow)
    return not await usage_totals(database, [], own_calls) and bool(await usage_totals(database, []))


def _print_budget(change: "BudgetChange", statuses: "Sequence[BudgetStatus]", *, matches_no_call: bool) -> None:
    from accounting.budgets.budget import format_amount
    from ops.presenters.budget_text import describe_consequence, describe_limit

    budget = change.stored.budget
    result = {"created": "is created", "changed": "is changed", "unchanged": "is unchanged"}[change.kind]
    click.echo(f"{budget.id} {result}: {describe_limit(budget)}")
    click.echo(describe_consequence(budget))
    if matches_no_call and change.kind == "created":
        print_error("no model call so far counts towards this budget; check the spelling of app and workflow")
    exhausted = [status for status in statuses if status.is_exhausted]
    if exhausted and not budget.soft:
        by_apps = f"by {pluralize(len(exhausted), 'app')}"
        amount = by_apps if budget.is_for_each_app else format_amount(budget.unit, exhausted[0].spent)
        print_error(f"the budget is spent already, {amount}: `unattended budgets show {budget.id}`")
