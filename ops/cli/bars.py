"""Bars: a share of something as a row of blocks, to the eighth of one."""

_FULL_BLOCK = "█"
_EIGHTH_BLOCKS = ("", "▏", "▎", "▍", "▌", "▋", "▊", "▉")


def draw_bar(share: float, width: int, *, unicode: bool) -> str:
    """What is more than nothing shows, however little it is."""
    share = min(max(share, 0.0), 1.0)
    if not unicode:
        blocks = round(share * width)
        return "#" * blocks or "." * (share > 0)
    full, eighths = divmod(round(share * width * 8), 8)
    return _FULL_BLOCK * full + _EIGHTH_BLOCKS[eighths] or _EIGHTH_BLOCKS[share > 0]


def format_percent(share: float) -> str:
    """`<1 %` and `>99 %` rather than a nothing or an all that it is not."""
    if 0 < share <= 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{share * 100:.0f} %"
