"""Numbers in Grafana's format, for the units of our dashboards."""

import math

_LONGER = ((86400.0, "days"), (3600.0, "hours"), (60.0, "min"), (1.0, "s"))
_THOUSANDS = ((1e9, " Bil"), (1e6, " Mil"), (1e3, " K"))
_BYTES = ((2.0**30, " GiB"), (2.0**20, " MiB"), (2.0**10, " KiB"))


def format_value(value: float, unit: str, *, decimals: int | None = None, now: float = 0) -> str:
    if math.isnan(value):
        return "-"
    if unit == "s":
        return _seconds(value, decimals)
    if unit == "percentunit":
        return f"{_plain(value * 100, decimals)}%"
    if unit == "currencyUSD":
        return f"${_plain(value, decimals)}"
    if unit == "bytes":
        return _format_scaled(value, _BYTES, decimals) or f"{_plain(value, decimals)} B"
    if unit == "locale":
        return f"{value:,.{decimals or 0}f}"
    if unit == "dateTimeFromNow":
        return f"in {_seconds(max(0.0, value / 1000 - now), 0)}"
    number = _format_scaled(value, _THOUSANDS, decimals) or _plain(value, decimals)
    return number + {"reqps": " req/s"}.get(unit, unit.removeprefix("suffix:") if unit.startswith("suffix:") else "")


def _seconds(value: float, decimals: int | None) -> str:
    for size, name in _LONGER:
        if abs(value) >= size:
            return f"{_plain(value / size, decimals)} {name}"
    return f"{_plain(value * 1000, decimals)} ms" if value else "0 s"


def _format_scaled(value: float, steps: tuple[tuple[float, str], ...], decimals: int | None) -> str | None:
    size, name = next((step for step in steps if abs(value) >= step[0]), (0.0, ""))
    return f"{_plain(value / size, decimals)}{name}" if size else None


def _plain(value: float, decimals: int | None) -> str:
    if decimals is not None:
        return f"{value:.{decimals}f}"
    if value == 0:
        return "0"
    places = max(0, 2 - math.floor(math.log10(abs(value))))
    return f"{value:.{min(places, 6)}f}".rstrip("0").rstrip(".") if places else f"{value:.0f}"
