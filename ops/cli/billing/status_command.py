"""`unattended billing status`."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import click

from ops.cli.command import command
from ops.cli.confirmation import pluralize
from ops.cli.output import format_moment, json_option, print_json
from ops.cli.session import with_database
from ops.presenters.printable_text import to_printable

if TYPE_CHECKING:
    from workers.settings import Settings


@command(
    "status",
    examples=["unattended billing status", "unattended billing status --json"],
    related=["billing list", "billing resume"],
)
@json_option
def status(as_json: bool) -> None:
    """Tells what waits, what is dead, and how the endpoint does.

    Exit code 1 when a batch is dead or the endpoint is in trouble.
    """
    found = with_database(_read_status)
    if as_json:
        print_json(found)
    else:
        for name, value in _status_lines(found):
            click.echo(f"{name + ':':<15} {to_printable(value)}")
        for advice in _advice_lines(found):
            click.echo(f"unattended: {advice}", err=True)
    raise SystemExit(1 if found["endpoints_in_trouble"] or found["dead"] else 0)


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
                "endpoint": each["url"],
                "gone_at": each.get("gone_at"),
                "failures": each["failures"],
                "last_failure": each["last_failure"],
                "next_attempt_after": None if each.get("gone_at") else each.get("paused_until"),
            }
            for each in await find_failures(database, settings.billing_url)
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
    for each in found["endpoints_in_trouble"]:
        last = each["last_failure"]
        failed = f"{format_moment(last['at'])} {last['what']} ({each['failures']} in a row, last {last['batch_id']})"
        stopped = f"; stopped since {format_moment(each['gone_at'])}" if each["gone_at"] else ""
        lines.append(("trouble", f"{each['endpoint']}: {failed}{stopped}"))
    return lines


def _advice_lines(found: Mapping[str, Any]) -> list[str]:
    advice = []
    if any(each["gone_at"] for each in found["endpoints_in_trouble"]):
        advice.append(
            "the endpoint answered 410, so nothing is sent; set another URL, or let it go on: unattended billing resume"
        )
    if found["dead"]:
        advice.append("look with `unattended billing list --state dead`, mend the endpoint, then `replay --dead`")
    return advice
