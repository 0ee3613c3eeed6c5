"""The tables of `unattended billing list` and `show` on a terminal."""

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from ops.cli.text_grid import GridColumn, fit_columns, grid_lines
from ops.presenters.amounts import format_exact_usd
from ops.presenters.printable_text import to_printable
from ops.presenters.times import format_moment

if TYPE_CHECKING:
    from ops.cli.output import Terminal

Row = Mapping[str, Any]
_NAME_FIELDS = (("app", "app_id"), ("workflow", "workflow"), ("model", "model"))


def batch_lines(rows: Sequence[Row], terminal: "Terminal") -> Iterator[str]:
    failures = [to_printable(row["last_failure"]["what"]) if row["last_failure"] else "" for row in rows]
    columns = [
        _text_column("batch", [row["batch_id"] for row in rows]),
        _text_column("state", [row["state"] for row in rows]),
        GridColumn("events", [str(row["events"]) for row in rows]),
        GridColumn("failures", [str(row["failures"]) for row in rows]),
        _time_column("created", [row["created_at"] for row in rows]),
        _time_column("next attempt", [row["next_attempt_at"] for row in rows]),
        _text_column("last failure", failures, max_width=max(terminal.width // 4, 12)),
    ]
    return _table_lines(columns, terminal, ("created", "failures", "events", "last failure", "next attempt"))


def event_lines(events: Sequence[Row], terminal: "Terminal") -> Iterator[str]:
    max_width = max(terminal.width // 6, 10)
    columns = [
        _text_column("event", [event["id"] for event in events], max_width=max(terminal.width // 3, 20)),
        *(_text_column(name, [event[field] for event in events], max_width=max_width) for name, field in _NAME_FIELDS),
        GridColumn("tokens", [str(event["tokens_used"]) for event in events]),
        GridColumn("USD", [format_exact_usd(event["cost_usd"]) for event in events]),
        _text_column("status", [event_status(event) for event in events]),
    ]
    return _table_lines(columns, terminal, ("model", "workflow", "app", "status"))


def event_status(event: Row) -> str:
    return f"{event['status']}{' (corrects)' if event['corrects'] else ''}"


def _table_lines(columns: Sequence[GridColumn], terminal: "Terminal", drop_order: Sequence[str]) -> Iterator[str]:
    title, *lines = grid_lines(fit_columns(columns, terminal.width, drop_order), unicode=terminal.has_unicode)
    yield terminal.style(title.rstrip(), bold=True)
    yield from (line.rstrip() for line in lines)


def _text_column(title: str, texts: Sequence[str], *, max_width: int | None = None) -> GridColumn:
    return GridColumn(title, [to_printable(text) for text in texts], is_right_aligned=False, max_width=max_width)


def _time_column(title: str, times: Sequence[datetime | None]) -> GridColumn:
    """On a narrow terminal, leave out the year and the seconds."""
    cells = [format_moment(time) for time in times]
    return GridColumn(title, cells, [cell[5:16] for cell in cells], is_right_aligned=False)
