"""Types of arguments and options that several commands share."""

from datetime import datetime
from pathlib import Path
from typing import Any, Literal

import click

from accounting.infra.strict_json import parse_strict_json
from ops.presenters.times import parse_moment
from workers.setting_values import Address, parse_address

StreamPosition = Literal["now", "token"] | datetime


class MomentType(click.ParamType[datetime]):
    name = "age|date"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> datetime:
        try:
            return value if isinstance(value, datetime) else parse_moment(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)


MOMENT = MomentType()


class StreamPositionType(click.ParamType[StreamPosition]):
    name = "now|token|age|time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> StreamPosition:
        return value if value in ("now", "token") else MOMENT.convert(value, param, ctx)


class AddressType(click.ParamType[Address]):
    name = "host:port"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Address:
        try:
            return value if isinstance(value, Address) else parse_address(str(value))
        except ValueError as error:
            self.fail(f"write {error}", param, ctx)


class JsonArgumentError(ValueError):
    """An argument that is no JSON object; the text names the mistake."""


def parse_json_object(text: str) -> dict[str, Any]:
    """Parse the argument itself, or the file that `@file` names."""
    try:
        raw = Path(text[1:]).read_text(encoding="utf-8-sig") if text.startswith("@") else text
        value = parse_strict_json(raw)
    except OSError as error:
        raise JsonArgumentError(f"{text[1:]} cannot be read: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise JsonArgumentError(f"{text[1:]} cannot be read: {error}; save it as UTF-8") from None
    except (ValueError, RecursionError) as error:  # also numbers of 5,000 digits, and endless nesting
        raise JsonArgumentError(f"is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise JsonArgumentError('must be a JSON object such as {"region": "eu"}')
    return value


def parse_json_option(text: str, option: str) -> dict[str, Any]:
    """Report a mistake as click does, with the option's name."""
    try:
        return parse_json_object(text)
    except JsonArgumentError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
