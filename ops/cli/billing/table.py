"""The tables of `unattended billing list` and `show` on a terminal, one line for each batch and event."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ops.cli.grid import Column, fitting, grid_lines
from ops.cli.output import moment, usd
from ops.cli.verdicts import printable

if TYPE_CHECKING:
    from ops.cli.terminal import Terminal

Row = Mapping[str, Any]


def batch_lines(rows: Sequence[Row], terminal: "Terminal") -> Iterator[str]:
    failures = [printable(row["last_failure"]["what"]) if row["last_failure"] else "" for row in rows]
    columns = [
        _texts("batch", [row["batch_id"] for row in rows]),
        _texts("state", [row["state"] for row in rows]),
        Column("events", [str(row["events"]) for row in rows]),
        Column("failures", [str(row["failures"]) for row in rows]),
        _times("created", [row["created_at"] for row in rows]),
        _times("next attempt", [row["next_attempt_at"] for row in rows]),
        _texts("last failure", failures, most=max(terminal.width // 4, 12)),
    ]
    return _lines(columns, terminal, ("created", "failures", "events", "last failure", "next attempt"))


def event_lines(events: Sequence[Row], terminal: "Terminal") -> Iterator[str]:
    most = max(terminal.width // 6, 10)
    columns = [
        _texts("event", [event["id"] for event in events], most=max(terminal.width // 3, 20)),
        *(_texts(name, [event[field] for event in events], most=most) for name, field in _NAMES),
        Column("tokens", [str(event["tokens_used"]) for event in events]),
        Column("USD", [usd(event["cost_usd"]) for event in events]),
        _texts("status", [status_of(event) for event in events]),
    ]
    return _lines(columns, terminal, ("model", "workflow", "app", "status"))


_NAMES = (("app", "app_id"), ("workflow", "workflow"), ("model", "model"))


def status_of(event: Row) -> str:
    return f"{event['status']}{' (corrects)' if event['corrects'] else ''}"


def _lines(columns: Sequence[Column], terminal: "Terminal", dropped_first: Sequence[str]) -> Iterator[str]:
    title, *lines = grid_lines(fitting(columns, terminal.width, dropped_first), unicode=terminal.unicode)
    yield terminal.styled(title.rstrip(), bold=True)
    yield from (line.rstrip() for line in lines)


def _texts(title: str, texts: Sequence[str], *, most: int | None = None) -> Column:
    return Column(title, [printable(text) for text in texts], right=False, most=most)


def _times(title: str, times: Sequence[datetime | None]) -> Column:
    """Where there is little room, without the year and the seconds."""
    return Column(title, [moment(at) for at in times], [moment(at)[5:16] for at in times], right=False)
