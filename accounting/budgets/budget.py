"""Budgets: how much may be spent in a window, and what happens then."""

from dataclasses import dataclass
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Literal, cast, get_args
from urllib.parse import quote
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError, available_timezones

from accounting.usage import NANO_PER_USD

Unit = Literal["tokens", "usd"]
Window = Literal["hour", "day", "month", "total", "run"]
NewRuns = Literal["hold", "refuse"]
Running = Literal["stop", "hold"]

UNITS: tuple[Unit, ...] = get_args(Unit)
WINDOWS: tuple[Window, ...] = get_args(Window)
NEW_RUNS: tuple[NewRuns, ...] = get_args(NewRuns)
RUNNING: tuple[Running, ...] = get_args(Running)

EACH_APP = "*"
MAX_TOKENS = 10**15
MAX_NANO_USD = 10**18
MAX_NAME = 200
MAX_NOTE = 500

MACHINE_ZONE = "localtime"  # a different zone on each machine


class InvalidBudgetError(ValueError):
    """The values are no valid budget. `problems` has one sentence per field."""

    def __init__(self, problems: dict[str, str]) -> None:
        super().__init__("; ".join(f"{field} {problem}" for field, problem in problems.items()))
        self.problems = problems


@dataclass(frozen=True, slots=True)
class Budget:
    """A limit on spending. `parse_budget` makes it from values of outside.

    `app_id` is one app, `*` for each app on its own, or None for all apps of the workflow together. `limit` is in
    tokens or in nano-dollars.
    """

    app_id: str | None
    workflow: str | None
    window: Window
    unit: Unit
    limit: int
    timezone: str = "UTC"
    soft: bool = False
    new_runs: NewRuns = "hold"
    running: Running = "stop"
    pause_triggers: bool = False
    note: str = ""

    @property
    def id(self) -> str:
        """The identity: a scope, window and unit have at most one budget."""
        app = [] if self.app_id is None else [f"app:{_quote_app_id(self.app_id)}"]
        workflow = [] if self.workflow is None else [f"workflow:{quote(self.workflow, safe='')}"]
        return "/".join([*app, *workflow, self.window, self.unit])

    @property
    def is_for_each_app(self) -> bool:
        return self.app_id == EACH_APP

    def matches(self, app_id: str, workflow: str) -> bool:
        return self.app_id in (None, EACH_APP, app_id) and self.workflow in (None, workflow)

    def as_json(self) -> dict[str, Any]:
        return {
            "budget_id": self.id,
            "app_id": self.app_id,
            "workflow": self.workflow,
            "window": self.window,
            "unit": self.unit,
            "limit": display_amount(self.unit, self.limit),
            "timezone": self.timezone,
            "soft": self.soft,
            "new_runs": self.new_runs,
            "running": self.running,
            "pause_triggers": self.pause_triggers,
            "note": self.note,
        }


def display_amount(unit: Unit, amount: int) -> int | float:
    """Converts an amount to tokens or USD, as in JSON and for people."""
    return amount if unit == "tokens" else amount / NANO_PER_USD


def format_amount(unit: Unit, amount: int) -> str:
    return f"{amount:,} tokens" if unit == "tokens" else f"USD {format_usd(amount)}"


def format_usd(amount: int) -> str:
    """Formats USD with at least two decimal places, and more if the amount has them."""
    dollars, _, parts = f"{Decimal(amount) / NANO_PER_USD:,.9f}".partition(".")
    return f"{dollars}.{parts.rstrip('0'):0<2}"


def parse_budget(
    *,
    app_id: str | None = None,
    workflow: str | None = None,
    window: str,
    unit: str,
    limit: int | float | str | Decimal,
    **options: Any,
) -> Budget:
    """Checks values of outside and makes a budget of them. Raises InvalidBudgetError.

    `limit` is in tokens or USD. `options` are the other fields; those that are None keep their defaults.
    """
    problems: dict[str, str] = {}
    _check_scope(app_id, workflow, problems)
    _check_choices({"window": (window, WINDOWS), "unit": (unit, UNITS)}, problems)
    amount = 0 if problems.get("unit") else _parse_amount(cast(Unit, unit), limit, problems)
    chosen = {name: value for name, value in options.items() if value is not None}
    _check_options(chosen, problems)
    if problems:
        raise InvalidBudgetError(problems)
    budget = Budget(app_id, workflow, cast(Window, window), cast(Unit, unit), amount, **chosen)
    _check_combination(budget, problems)
    if problems:
        raise InvalidBudgetError(problems)
    return budget


def _check_scope(app_id: str | None, workflow: str | None, problems: dict[str, str]) -> None:
    for field, name in (("app_id", app_id), ("workflow", workflow)):
        if name is not None and not _is_valid_name(name):
            problems[field] = f"must be a name of 1 to {MAX_NAME} characters"
    if app_id is None and workflow is None:
        problems["app_id"] = "is required unless a workflow is given; write * for each app on its own"


def _is_valid_name(name: object) -> bool:
    if not isinstance(name, str) or not 0 < len(name) <= MAX_NAME or "\0" in name:
        return False
    return not any("\ud800" <= character <= "\udfff" for character in name)  # a lone surrogate, which no store accepts


def _check_choices(fields: dict[str, tuple[object, tuple[str, ...]]], problems: dict[str, str]) -> None:
    for field, (value, choices) in fields.items():
        if value not in choices:
            problems[field] = f"must be one of {', '.join(choices)}"


def _parse_amount(unit: Unit, limit: object, problems: dict[str, str]) -> int:
    maximum = MAX_TOKENS if unit == "tokens" else MAX_NANO_USD
    try:
        amount = Decimal(str(limit)) * (1 if unit == "tokens" else NANO_PER_USD)
    except ArithmeticError:  # no number, or one that is too large
        amount = Decimal("NaN")
    if isinstance(limit, bool) or not amount.is_finite() or not 0 <= amount <= maximum:
        problems["limit"] = f"must be a number from 0 to {display_amount(unit, maximum):,.0f}"
    elif amount != int(amount):
        problems["limit"] = (
            "must be a whole number of tokens" if unit == "tokens" else "must have at most 9 decimal places"
        )
    return 0 if "limit" in problems else int(amount)


def _check_options(options: dict[str, Any], problems: dict[str, str]) -> None:
    for name in ("soft", "pause_triggers"):
        if not isinstance(options.get(name, False), bool):
            problems[name] = "must be true or false"
    choices = {
        "new_runs": (options.get("new_runs", "hold"), NEW_RUNS),
        "running": (options.get("running", "stop"), RUNNING),
    }
    _check_choices({name: (value, tuple(allowed)) for name, (value, allowed) in choices.items()}, problems)
    if not is_time_zone(options.get("timezone", "UTC")):
        problems["timezone"] = describe_unknown_zone(options["timezone"])
    note = options.get("note", "")
    if not isinstance(note, str) or (note and not _is_valid_name(note[:MAX_NAME])) or len(note) > MAX_NOTE:
        problems["note"] = f"must be text of up to {MAX_NOTE} characters"


def is_time_zone(timezone: object) -> bool:
    try:
        return isinstance(timezone, str) and timezone != MACHINE_ZONE and bool(ZoneInfo(timezone).key)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False


def _check_combination(budget: Budget, problems: dict[str, str]) -> None:
    if budget.pause_triggers and (budget.soft or budget.window == "run"):
        which = "a soft budget only warns" if budget.soft else "a run does not stop what starts the next one"
        problems["pause_triggers"] = f"is not possible: {which}"
    if budget.running == "hold" and budget.window == "run":
        problems["running"] = "must be stop for the window run: no later window follows in which the run could continue"


def _quote_app_id(app_id: str) -> str:
    return EACH_APP if app_id == EACH_APP else quote(app_id, safe="")


def describe_unknown_zone(name: object) -> str:
    """Describes the problem of an unknown zone, with the zone that may be meant."""
    written = str(name).strip().lower().replace(" ", "_")
    zones = sorted(available_timezones() - {MACHINE_ZONE}, key=lambda zone: ("/" not in zone, zone))
    exact = [zone for zone in zones if zone.lower() == written]
    matches = exact or [zone for zone in zones if zone.lower().rpartition("/")[2] == written]
    lower = {zone.lower(): zone for zone in zones}
    candidates = matches or [lower[close] for close in get_close_matches(written, lower, n=1, cutoff=0.75)]
    return (
        f"is not a time zone; did you mean {candidates[0]}?"
        if candidates
        else "is not a time zone; write a name such as Europe/Berlin, or UTC"
    )
