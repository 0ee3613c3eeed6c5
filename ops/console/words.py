"""Words of the console: times, amounts and values as the pages show them, the same as on the command line."""

import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

from markupsafe import Markup, escape

from ops.cli.amounts import short, usd_text, whole
from ops.cli.bars import percent
from ops.cli.turn_lines import place_of, shown
from ops.cli.verdicts import encodable

MAX_TEXT = 2_000
MAX_LINES = 60
MAX_JSON = 4_000
MAX_WHOLE = 200_000  # more than a question has, which is bounded when it is stored
GOOD = frozenset({"succeeded", "active"})
BAD = frozenset({"failed", "parked", "inactive"})
WARN = frozenset({"needs_human", "paused"})
BUSY = frozenset({"running", "queued"})


def moment(value: Any) -> Markup:
    if not isinstance(value, datetime):
        return Markup("")
    utc = value.astimezone(UTC)
    return Markup('<time datetime="{}">{}</time>').format(utc.isoformat(), f"{utc:%Y-%m-%d %H:%M:%S}")


def seconds(value: float | None) -> str:
    if value is None:
        return ""
    return f"{value * 1000:.0f} ms" if value < 1 else f"{value:.1f} s" if value < 60 else f"{value / 60:.1f} min"


def usd(value: float | None, decimals: int | None = None) -> str:
    """What costs anything is not shown as nothing. `decimals`: as the other amounts of a column have them."""
    if decimals is None:
        decimals = 2 if not value or abs(value) >= 1 else 4 if abs(value) >= 0.01 else 6
    return usd_text(value, decimals)


def preview(text: str) -> Markup:
    """The first lines of a text, and how much more there is of it."""
    lines = encodable(str(text)[:MAX_TEXT]).splitlines()[:MAX_LINES]
    cut = "\n".join(lines)
    if len(cut.strip()) >= len(str(text).strip()):
        return Markup('<p class="said">{}</p>').format(cut)
    return Markup('<p class="said">{}<span class="soft"> … ({} characters)</span></p>').format(cut, whole(len(text)))


def as_json_text(value: Any, *, whole: bool = False) -> str:
    """`whole`: nothing usual is cut, as of what a person approves."""
    text, most = json.dumps(value, ensure_ascii=False, default=_plain, indent=2), MAX_WHOLE if whole else MAX_JSON
    return encodable(text if len(text) <= most else f"{text[:most]}\n… ({len(text):,} characters)")


def _plain(value: Any) -> str:
    return value.isoformat() if isinstance(value, datetime) else str(value)


def badge(state: str, why: str = "") -> Markup:
    """A state in a colour and, for whoever sees none, in words."""
    kinds: Mapping[str, frozenset[str]] = {"good": GOOD, "bad": BAD, "warn": WARN, "busy": BUSY}
    kind = next((name for name, states in kinds.items() if state in states), "plain")
    return Markup('<span class="badge {}">{}{}</span>').format(
        kind, state.replace("_", " "), Markup(" ({})").format(escape(why)) if why else ""
    )


FILTERS: Mapping[str, Callable[..., Any]] = {
    "moment": moment,
    "seconds": seconds,
    "usd": usd,
    "whole": whole,
    "short": short,
    "percent": percent,
    "preview": preview,
    "shown": shown,
    "place": place_of,
    "json_text": as_json_text,
    "badge": badge,
}
