"""`unattended keys`: API keys for /v1, with their scopes, rates and lifetimes."""

from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

import click

from ops.cli.command import Group
from ops.cli.completion import complete_with, find_apps, find_ids
from ops.cli.database_session import with_database
from ops.cli.output import exit_with_error, json_option, print_json, print_table
from ops.presenters.times import format_moment

if TYPE_CHECKING:
    from triggers.api_keys import ApiKey

T = TypeVar("T")

MAX_NAME_LENGTH = 100  # records of changes repeat it
MAX_APP_ID_LENGTH = 200


@click.group(cls=Group)
def keys() -> None:
    """Creates, lists and revokes API keys for /v1."""


def _parse_with(parse: Callable[[str], T]) -> Callable[[click.Context, click.Parameter, str | None], T | None]:
    def callback(_context: click.Context, _parameter: click.Parameter, text: str | None) -> T | None:
        try:
            return None if text is None else parse(text)
        except ValueError as error:
            raise click.BadParameter(str(error)) from None

    return callback


def _parse_rate(text: str) -> Any:
    from triggers.api_keys import parse_rate

    return parse_rate(text)


def _parse_lifetime(text: str) -> datetime:
    from workflows.package.trigger_specs.spec_field_types import parse_duration

    lifetime = parse_duration(text)
    if not lifetime:
        raise ValueError("write a time above zero, such as 90d")
    return datetime.now(UTC) + lifetime


def _one_line_parser(max_length: int) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if not 0 < len(text) <= max_length or not text.isprintable():
            raise ValueError(f"write one line of 1 to {max_length} characters")
        return text

    return parse


@keys.command(
    "create",
    examples=[
        "unattended keys create shop --app acme",
        "unattended keys create grafana --read-only --rate 600/m --expires 90d",
        "unattended keys create finance --app acme --may approve",
    ],
    related=["keys list", "keys revoke"],
)
@click.argument("name", callback=_parse_with(_one_line_parser(MAX_NAME_LENGTH)))
@click.option(
    "--app",
    "app_id",
    callback=_parse_with(_one_line_parser(MAX_APP_ID_LENGTH)),
    shell_complete=complete_with(find_apps),
    help="Only this app's runs, triggers and usage. Without it: all apps.",
)
@click.option("--read-only", is_flag=True, help="Allow reads only.")
@click.option(
    "--may",
    multiple=True,
    type=click.Choice(["approve"]),
    help="approve: allow answering and discarding runs that wait for a person, and triggers that answer in advance.",
)
@click.option(
    "--rate", callback=_parse_with(_parse_rate), help="Limit of calls at each gateway, such as 600/m. Default: 100/s."
)
@click.option(
    "--expires", "expires_at", callback=_parse_with(_parse_lifetime), help="Lifetime of the key, such as 90d or 12h."
)
@json_option
def create_key(name: str, app_id: str | None, as_json: bool, **options: Any) -> None:
    """Creates a key, and shows it once.

    Only its hash is stored.
    """
    from triggers.api_keys import DEFAULT_RATE, Access, ApiKeys, format_rate

    access: Access = "read" if options["read_only"] else "write"
    may = tuple(dict.fromkeys(options["may"]))
    if access == "read" and may:
        raise click.UsageError("--read-only excludes --may approve: an answer is a change")
    rate, expires_at = options["rate"] or DEFAULT_RATE, options["expires_at"]
    rights: dict[str, Any] = {"access": access, "may": may}
    key = with_database(
        lambda database, _: ApiKeys(database).create(name, app_id, rate=rate, expires_at=expires_at, **rights)
    )
    if as_json:
        scope = {"app_id": app_id, **rights, "rate": format_rate(rate), "expires": expires_at}
        print_json({"name": name, **scope, "key": key})
    else:
        click.echo(key)


@keys.command("list", examples=["unattended keys list"], related=["keys create", "keys revoke"])
@json_option
def list_keys(as_json: bool) -> None:
    """Lists names and scopes, never the keys themselves."""
    from triggers.api_keys import ApiKeys

    rows = [_key_row(key) for key in with_database(lambda database, _: ApiKeys(database).list())]
    if as_json:
        print_json(rows)
        return
    table = [
        [
            row["id"],
            row["name"],
            row["app_id"] or "all",
            row["access"],
            ", ".join(row["may"]),
            row["rate"],
            _describe_state(row),
        ]
        + [format_moment(row[name]) for name in ("created", "last_used")]
        for row in rows
    ]
    print_table("API keys", ["id", "name", "app", "access", "may", "rate", "state", "created", "last used"], table)
    if not rows:
        click.echo("there are no keys yet; `unattended keys create NAME` creates one", err=True)


@keys.command("revoke", examples=["unattended keys revoke key_01JX2B5W8ZK4M7Q9T1V38C0A2F"], related=["keys list"])
@click.argument("key_id", shell_complete=complete_with(find_ids("api_keys", "name")))
@json_option
def revoke_key(key_id: str, as_json: bool) -> None:
    """Revokes a key; gateways refuse it within two seconds."""
    from triggers.api_keys import ApiKeys

    if not with_database(lambda database, _: ApiKeys(database).revoke(key_id)):
        exit_with_error(f"there is no key {key_id} to revoke; `unattended keys list` lists the keys")
    if as_json:
        print_json({"id": key_id, "revoked": True})
    else:
        click.echo(f"{key_id} is revoked")


def _key_row(key: "ApiKey") -> dict[str, Any]:
    from triggers.api_keys import format_rate

    return {
        "id": key.id,
        "name": key.name,
        "app_id": key.app_id,
        "access": key.access,
        "may": list(key.may),
        "rate": format_rate(key.rate),
        "created": key.created_at,
        "revoked": key.revoked_at,
        "expires": key.expires_at,
        "last_used": key.last_used_at,
    }


def _describe_state(row: dict[str, Any]) -> str:
    if row["revoked"] is not None:
        return f"revoked {format_moment(row['revoked'])}"
    if row["expires"] is None:
        return "good"
    ended = row["expires"] <= datetime.now(UTC)
    return f"{'expired' if ended else 'good until'} {format_moment(row['expires'])}"
