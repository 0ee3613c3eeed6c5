"""Template filters: times, amounts, texts and states as the pages show them."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape

from ops.presenters.amounts import format_count, format_percent, format_short_count, format_usd
from ops.presenters.printable_text import to_encodable
from ops.presenters.turn_lines import error_location, format_value

MAX_TEXT_CHARACTERS = 2_000
MAX_TEXT_LINES = 60
MAX_JSON_CHARACTERS = 4_000
MAX_WHOLE_JSON_CHARACTERS = 200_000  # more than a stored question can have
GOOD_STATES = frozenset({"succeeded", "active"})
BAD_STATES = frozenset({"failed", "parked", "inactive"})
WARNING_STATES = frozenset({"needs_human", "paused"})
BUSY_STATES = frozenset({"running", "queued"})


def moment_html(value: Any) -> Markup:
    if not isinstance(value, datetime):
        return Markup("")
    utc = value.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(utc.isoformat(), f"{utc:%Y-%m-%d %H:%M:%S}")


def format_seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s" if value < 60 else f"{value / 60:.1f} min"


def format_usd_amount(value: float | None, decimals: int | None = None) -> str:
    """Choose decimals so that no cost looks like zero, unless a column fixes them."""
    if decimals is None:
        decimals = 2 if not value or abs(value) >= 1 else 4 if abs(value) >= 0.01 else 6
    return format_usd(value, decimals)


def preview_html(text: str) -> Markup:
    """Show the first lines of a text, and the length of a longer one."""
    lines = to_encodable(str(text)[:MAX_TEXT_CHARACTERS]).splitlines()[:MAX_TEXT_LINES]
    preview = "\n".join(lines)
    if len(preview.strip()) >= len(str(text).strip()):
        return Markup('<p class="said">{}</p>').format(preview)
    return Markup('<p class="said">{}<span class="soft"> … ({} characters)</span></p>').format(
        preview, format_count(len(text))
    )


def json_text(value: Any, *, whole: bool = False) -> str:
    """`whole` shows nearly everything, as a person must see what they approve."""
    text = json.dumps(value, ensure_ascii=False, default=_to_json_value, indent=2)
    limit = MAX_WHOLE_JSON_CHARACTERS if whole else MAX_JSON_CHARACTERS
    return to_encodable(text if len(text) <= limit else f"{text[:limit]}\n… ({len(text):,} characters)")


def _to_json_value(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def badge_html(state: str, reason: str = "") -> Markup:
    """Show a state as a colour and as text."""
    kinds: Mapping[str, frozenset[str]] = {
        "good": GOOD_STATES,
        "bad": BAD_STATES,
        "warn": WARNING_STATES,
        "busy": BUSY_STATES,
    }
    kind = next((name for name, states in kinds.items() if state in states), "plain")
    return Markup('<span class="badge {}">{}{}</span>').format(
        kind, state.replace("_", " "), Markup(" ({})").format(escape(reason)) if reason else ""
    )


TEMPLATE_FILTERS: Mapping[str, Callable[..., Any]] = {
    "moment": moment_html,
    "seconds": format_seconds,
    "usd": format_usd_amount,
    "whole": format_count,
    "short": format_short_count,
    "percent": format_percent,
    "preview": preview_html,
    "shown": format_value,
    "place": error_location,
    "json_text": json_text,
    "badge": badge_html,
}
