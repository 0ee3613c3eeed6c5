"""The broker URL: parses and checks UNATTENDED_REDIS_URL.

It names Redis, a Redis behind Sentinels, or RabbitMQ. Celery would pass unknown options to a constructor and show a
traceback, and would accept any certificate for a `rediss://` without options. No text of this module contains a
password.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, unquote

from workers.broker.broker_tls import TLS_OPTIONS, Tls
from workers.broker.option_parsers import one_of_words, parse_seconds, parse_text, parse_whole_number
from workers.setting_values import Address, parse_address
from workers.settings import SettingsError

NAME = "UNATTENDED_REDIS_URL"
Kind = Literal["redis", "sentinel", "amqp"]

_KINDS: dict[str, Kind] = {
    "redis": "redis",
    "rediss": "redis",
    "sentinel": "sentinel",
    "amqp": "amqp",
    "amqps": "amqp",
}
_PORTS = {"redis": 6379, "rediss": 6379, "sentinel": 26379, "amqp": 5672, "amqps": 5671}
_ESCAPE = "in a password, characters such as @ : / ? # ; are written %40 %3A %2F %3F %23 %3B"

_ANY_REDIS = {
    "visibility_timeout": parse_whole_number,
    "socket_timeout": parse_seconds,
    "socket_connect_timeout": parse_seconds,
    "health_check_interval": parse_whole_number,
    "max_connections": parse_whole_number,
    "global_keyprefix": parse_text,
}
OPTIONS: dict[Kind, dict[str, Any]] = {
    "redis": _ANY_REDIS,
    "sentinel": {
        **_ANY_REDIS,
        "master_name": parse_text,
        "sentinel_username": parse_text,
        "sentinel_password": parse_text,
        "min_other_sentinels": parse_whole_number,
    },
    "amqp": {"heartbeat": parse_whole_number, "login_method": one_of_words("PLAIN", "AMQPLAIN", "EXTERNAL")},
}


@dataclass(frozen=True, slots=True)
class Broker:
    scheme: str
    kind: Kind
    hosts: tuple[Address, ...]
    user: str
    password: str = field(repr=False)
    path: str  # Redis: the number of the database; RabbitMQ: the virtual host
    tls: Tls | None
    options: Mapping[str, Any] = field(repr=False)

    @property
    def redacted_url(self) -> str:
        """The URL without secrets, for logs: where the broker is, and the user name."""
        login = self.user + (":***" if self.password else "") + ("@" if self.user or self.password else "")
        hosts = ";".join(map(str, self.hosts))
        return f"{self.scheme}://{login}{hosts}/{'' if self.path == '/' else self.path}"

    @property
    def celery_url(self) -> str:
        """The URL for Celery: each host with login and path.

        kombu takes both from whichever host it tries.
        """
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@" if self.user or self.password else ""
        path = quote(self.path, safe="")
        return ";".join(f"{self.scheme}://{login}{host}/{path}" for host in self.hosts)


def parse_broker_url(url: str) -> Broker:
    try:
        return _parse(url)
    except ValueError as error:
        raise SettingsError(f"{NAME}: {error}") from None


def _parse(url: str) -> Broker:
    scheme, separator, remainder = url.strip().partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _KINDS:
        schemes = ", ".join(f"{name}://" for name in _KINDS)
        raise ValueError(f"it must begin with one of {schemes} such as redis://127.0.0.1:6379/0")
    location, _, query = remainder.partition("?")
    if "@" in query or "#" in remainder:  # checked first: later errors may quote pieces of the URL
        raise ValueError(f"it cannot be read; {_ESCAPE}")
    parts = [_parse_part(part, scheme) for part in location.replace(",", ";").split(";")]
    kind = _KINDS[scheme]
    if len(parts) > 1 and kind == "redis":
        raise ValueError(f"{scheme}:// takes one host; several are for sentinel:// and amqp://")
    options, tls = _parse_options(query, kind, encrypted=scheme in {"rediss", "amqps"})
    return Broker(
        scheme=scheme,
        kind=kind,
        hosts=tuple(part.host for part in parts),
        user=_single_value("user name", {part.user for part in parts}),
        password=_single_value("password", {part.password for part in parts}),
        path=_parse_path(
            kind, _single_value("database" if kind != "amqp" else "virtual host", {part.path for part in parts})
        ),
        tls=tls,
        options=options,
    )


@dataclass(frozen=True, slots=True)
class _HostPart:
    host: Address
    user: str
    password: str
    path: str


def _parse_part(raw: str, scheme: str) -> _HostPart:
    own_scheme, separator, remainder = raw.rpartition("://")
    if separator and own_scheme.lower() != scheme:
        raise ValueError(f"all its hosts must begin with {scheme}://, or only the first")
    login, _, location = remainder.rpartition("@")
    if "@" in login or "/" in login:
        raise ValueError(f"it cannot be read; {_ESCAPE}")
    host, _, path = location.partition("/")
    user, _, password = login.partition(":")
    return _HostPart(_parse_address(host, _PORTS[scheme]), unquote(user), unquote(password), unquote(path))


def _parse_address(host: str, port: int) -> Address:
    has_port = ":" in host.rpartition("]")[2]
    try:
        return parse_address((host or "127.0.0.1") + ("" if has_port else f":{port}"))
    except ValueError:
        raise ValueError(f"write each host as host:port; {_ESCAPE}") from None


def _single_value(name: str, values: set[str]) -> str:
    named = values - {""}
    if len(named) > 1:
        raise ValueError(f"its hosts name more than one {name}; name it once")
    return named.pop() if named else ""


def _parse_path(kind: Kind, path: str) -> str:
    if kind == "amqp":
        return path or "/"
    if path and not (path.isascii() and path.isdigit()):
        raise ValueError("the path after the host must be the number of a database, such as /0")
    return path or "0"


def _parse_options(query: str, kind: Kind, *, encrypted: bool) -> tuple[dict[str, Any], Tls | None]:
    raw_options = _parse_pairs(query)
    # Sentinel has no scheme for TLS: any TLS option turns it on.
    encrypted = encrypted or (kind == "sentinel" and any(name in TLS_OPTIONS for name in raw_options))
    known = {**OPTIONS[kind], **(TLS_OPTIONS if encrypted else {})}
    parsed: dict[str, Any] = {}
    for name, raw in raw_options.items():
        if name not in known:
            raise ValueError(_describe_unknown(name, kind, known))
        try:
            parsed[name] = known[name](raw)
        except ValueError as error:
            raise ValueError(f"the option {name} must be {error}") from None
    if kind == "sentinel" and "master_name" not in parsed:
        raise ValueError("sentinel:// needs the option master_name, such as ?master_name=mymaster")
    tls = (
        Tls.from_options({name: value for name, value in parsed.items() if name in TLS_OPTIONS}) if encrypted else None
    )
    return {name: value for name, value in parsed.items() if name not in TLS_OPTIONS}, tls


def _parse_pairs(query: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the option {twice[0]} is named twice; name it once")
    return dict(pairs)


def _describe_unknown(name: str, kind: Kind, options: Mapping[str, Any]) -> str:
    shown = name if name.isidentifier() and len(name) <= 40 else "(unreadable)"
    if name in TLS_OPTIONS:
        return (
            f"the option {shown} is for encrypted connections; begin with {'amqps' if kind == 'amqp' else 'rediss'}://"
        )
    return f"there is no option {shown}; there are {', '.join(sorted(options))}"
