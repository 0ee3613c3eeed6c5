"""Keys: by what calls are grouped, as a user names it and as the totals do."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
from typing_extensions import override

FIELDS: Mapping[str, str] = {
    "app": "app_id",
    "workflow": "workflow",
    "model": "model",
    "agent": "agent",
    "provider": "provider",
    "trigger": "trigger_type",
    "day": "day",
    "hour": "hour",
}
TIME_KEYS = frozenset({"day", "hour"})  # in UTC
MAX_KEYS = 3


class GroupByType(click.ParamType[tuple[str, ...]]):
    """One key, or several with commas: groups inside of groups."""

    name = "by"

    @override
    def get_metavar(self, param: click.Parameter, ctx: click.Context) -> str:
        return "KEY[,KEY]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        if isinstance(value, tuple):
            return value
        names = tuple(dict.fromkeys(name.strip() for name in str(value).split(",")))
        unknown = [name for name in names if name not in FIELDS]
        if unknown:
            self.fail(f"{unknown[0]!r} is none of {', '.join(FIELDS)}; two at once: app,model", param, ctx)
        if len(names) > MAX_KEYS:
            self.fail(f"{len(names)} at once are too many to read; name at most {MAX_KEYS}", param, ctx)
        return names


def field_names(names: Sequence[str]) -> list[str]:
    return [FIELDS[name] for name in names]
