"""`unattended billing status`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.database_session import with_database
from ops.cli.exit_codes import EXIT_FAILURE
from ops.cli.output import json_option, print_error, print_json
from ops.presenters.amounts import pluralize
from ops.presenters.printable_text import to_printable
from ops.presenters.times import format_moment

if TYPE_CHECKING:
    from workers.settings import Settings


@command(
    "status",
    examples=["unattended billing status", "unattended billing status --json"],
    related=["billing list", "billing resume"],
)
@json_option
def status(as_json: bool) -> None:
    """Shows waiting and dead batches, and the endpoint's health.

    Exit code 1 when a batch is dead or the endpoint fails.
    """
    found = with_database(_read_status)
    if as_json:
        print_json(found)
    else:
        for name, value in _status_lines(found):
            click.echo(f"{name + ':':<15} {to_printable(value)}")
        for advice in _advice_lines(found):
            print_error(advice)
    raise SystemExit(EXIT_FAILURE if found["endpoints_in_trouble"] or found["dead"] else 0)


async def _read_status(database: Any, settings: "Settings") -> dict[str, Any]:
    from accounting.billing.endpoint_health import find_failures, redact_url
    from accounting.billing.outbox import read_outbox_state
    from accounting.billing.outbox_batches import find_last_delivery

    state, last = await read_outbox_state(database), await find_last_delivery(database)
    return {
        "endpoint": settings.billing_url and redact_url(settings.billing_url),
        "pending": state.pending,
        "oldest_pending_age_s": round(state.oldest_pending_age_s, 1),
        "dead": state.dead,
        "last_delivered_at": last and last["delivered_at"],
        "endpoints_in_trouble": [
            {
                "endpoint": failing["url"],
                "gone_at": failing.get("gone_at"),
                "failures": failing["failures"],
                "last_failure": failing["last_failure"],
                "next_attempt_after": None if failing.get("gone_at") else failing.get("paused_until"),
            }
            for failing in await find_failures(database, settings.billing_url)
        ],
    }


def _status_lines(found: Mapping[str, Any]) -> list[tuple[str, str]]:
    oldest = f", the oldest for {found['oldest_pending_age_s']:.0f} s" if found["pending"] else ""
    lines = [
        ("endpoint", found["endpoint"] or "UNATTENDED_BILLING_URL is not set here"),
        ("pending", f"{pluralize(found['pending'], 'batch')}{oldest}"),
        ("dead", pluralize(found["dead"], "batch")),
        ("last delivery", format_moment(found["last_delivered_at"]) or "none in the last 7 days"),
    ]
    for failing in found["endpoints_in_trouble"]:
        last = failing["last_failure"]
        text = f"{format_moment(last['at'])} {last['what']} ({failing['failures']} in a row, last {last['batch_id']})"
        stopped = f"; stopped since {format_moment(failing['gone_at'])}" if failing["gone_at"] else ""
        lines.append(("failing", f"{failing['endpoint']}: {text}{stopped}"))
    return lines


def _advice_lines(found: Mapping[str, Any]) -> list[str]:
    advice = []
    if any(failing["gone_at"] for failing in found["endpoints_in_trouble"]):
        advice.append(
            "the endpoint answered 410, so delivery stopped; set another URL, or run `unattended billing resume`"
        )
    if found["dead"]:
        advice.append("run `unattended billing list --state dead`, fix the endpoint, then `billing replay --dead`")
    return advice
