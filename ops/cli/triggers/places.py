"""A place in a change stream, as a command names it: now, where it stopped, or a time."""

from datetime import datetime
from typing import Any, Literal

import click

from ops.cli.runs.asking import MOMENT

_KEYWORDS = ("now", "token")


class StreamPositionType(click.ParamType[Literal["now", "token"] | datetime]):
    name = "now|token|age|time"

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> Literal["now", "token"] | datetime:
        return value if value in _KEYWORDS else MOMENT.convert(value, param, ctx)
