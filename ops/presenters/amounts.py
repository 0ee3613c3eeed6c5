"""Amounts as text: counts, tokens, USD, shares and bars."""

from collections.abc import Iterable

_UNIT_SIZES = ((10**3, "k"), (10**6, "M"), (10**9, "G"), (10**12, "T"), (10**15, "P"))

_FULL_BLOCK = "█"
_EIGHTH_BLOCKS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


def format_count(number: int) -> str:
    return f"{number:,}"


def format_short_count(number: int) -> str:
    """Three digits and a unit: 12.3k."""
    if number < 10_000:
        return format_count(number)
    scaled = [(f"{number / size:#.3g}".rstrip("."), unit) for size, unit in _UNIT_SIZES]
    return next((f"{text}{unit}" for text, unit in scaled if float(text) < 1000), format_count(number))


def pluralize(number: int, noun: str) -> str:
    """`1 batch`, `2,000 batches`."""
    plural = f"{noun}es" if noun.endswith("ch") else f"{noun}s"
    return f"{format_count(number)} {noun if number == 1 else plural}"


def usd_decimals(amounts: Iterable[float | None]) -> int:
    """Return as many decimals as give the largest amount three significant digits, at least two."""
    largest = max((abs(amount) for amount in amounts if amount is not None), default=0.0)
    return 2 if largest >= 10 or not largest else 4 if largest >= 0.1 else 6


def format_usd(amount: float | None, decimals: int = 2) -> str:
    if amount is None:
        return "unknown"
    smallest = 10.0**-decimals
    return f"<{smallest:.{decimals}f}" if 0 < amount < smallest / 2 else f"{amount:,.{decimals}f}"


def format_exact_usd(amount: float | None) -> str:
    """Show six digits, nine where six would show a cost as zero."""
    if amount is None:
        return "unknown"
    text = f"{amount:.6f}"
    return text if float(text) or not amount else f"{amount:.9f}"


def draw_bar(share: float, width: int, *, unicode: bool) -> str:
    """Draw at least the smallest block for any share above zero."""
    share = min(max(share, 0.0), 1.0)
    if not unicode:
        blocks = round(share * width)
        return "#" * blocks or "." * (share > 0)
    full, eighths = divmod(round(share * width * 8), 8)
    return _FULL_BLOCK * full + _EIGHTH_BLOCKS[eighths] or _EIGHTH_BLOCKS[share > 0]


def format_percent(share: float) -> str:
    """Print `<1 %` and `>99 %` rather than a rounded 0 % or 100 %."""
    if 0 < share <= 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{share * 100:.0f} %"
