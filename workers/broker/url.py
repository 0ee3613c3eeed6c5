"""The broker's URL, read and checked: UNATTENDED_REDIS_URL names Redis, a Redis behind Sentinels, or RabbitMQ.

Celery would pass unknown options on to a constructor and show a traceback, and of a `rediss://` without options it
would believe any certificate. Whatever is said here about a URL, no password is in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import parse_qsl, quote, unquote

from workers.broker.tls import TLS_OPTIONS, Tls
from workers.broker.words import one_of, seconds, text, whole_number
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
    "visibility_timeout": whole_number,
    "socket_timeout": seconds,
    "socket_connect_timeout": seconds,
    "health_check_interval": whole_number,
    "max_connections": whole_number,
    "global_keyprefix": text,
}
OPTIONS: dict[Kind, dict[str, Any]] = {
    "redis": _ANY_REDIS,
    "sentinel": {
        **_ANY_REDIS,
        "master_name": text,
        "sentinel_username": text,
        "sentinel_password": text,
        "min_other_sentinels": whole_number,
    },
    "amqp": {"heartbeat": whole_number, "login_method": one_of("PLAIN", "AMQPLAIN", "EXTERNAL")},
}


@dataclass(frozen=True, slots=True)
class Broker:
    scheme: str
    kind: Kind
    hosts: tuple[Address, ...]
    user: str
    password: str = field(repr=False)
    place: str  # Redis: the number of the database; RabbitMQ: the virtual host
    tls: Tls | None
    options: Mapping[str, Any] = field(repr=False)

    @property
    def shown(self) -> str:
        """As it may stand in a log: where it is, and as whom, without any secret."""
        login = self.user + (":***" if self.password else "") + ("@" if self.user or self.password else "")
        hosts = ";".join(map(str, self.hosts))
        return f"{self.scheme}://{login}{hosts}/{'' if self.place == '/' else self.place}"

    @property
    def celery_url(self) -> str:
        """Each host with everything: kombu takes login and place from the one that it happens to try."""
        login = f"{quote(self.user, safe='')}:{quote(self.password, safe='')}@" if self.user or self.password else ""
        place = quote(self.place, safe="")
        return ";".join(f"{self.scheme}://{login}{host}/{place}" for host in self.hosts)


def parse_broker_url(url: str) -> Broker:
    try:
        return _parse(url)
    except ValueError as error:
        raise SettingsError(f"{NAME}: {error}") from None


def _parse(url: str) -> Broker:
    scheme, separator, rest = url.strip().partition("://")
    scheme = scheme.lower()
    if not separator or scheme not in _KINDS:
        schemes = ", ".join(f"{each}://" for each in _KINDS)
        raise ValueError(f"its beginning is not one of {schemes}; write redis://127.0.0.1:6379/0, for example")
    place, _, query = rest.partition("?")
    if "@" in query or "#" in rest:  # said first: what follows may quote pieces of the URL
        raise ValueError(f"it cannot be read; {_ESCAPE}")
    parts = [_part(each, scheme) for each in place.replace(",", ";").split(";")]
    kind = _KINDS[scheme]
    if len(parts) > 1 and kind == "redis":
        raise ValueError(f"{scheme}:// takes one host; several are for sentinel:// and amqp://")
    options, tls = _options(query, kind, encrypted=scheme in {"rediss", "amqps"})
    return Broker(
        scheme=scheme,
        kind=kind,
        hosts=tuple(part.host for part in parts),
        user=_only("user name", {part.user for part in parts}),
        password=_only("password", {part.password for part in parts}),
        place=_place(kind, _only("database" if kind != "amqp" else "virtual host", {part.place for part in parts})),
        tls=tls,
        options=options,
    )


@dataclass(frozen=True, slots=True)
class _Part:
    host: Address
    user: str
    password: str
    place: str


def _part(raw: str, scheme: str) -> _Part:
    own_scheme, separator, rest = raw.rpartition("://")
    if separator and own_scheme.lower() != scheme:
        raise ValueError(f"all its hosts must begin with {scheme}://, or only the first")
    login, _, where = rest.rpartition("@")
    if "@" in login or "/" in login:
        raise ValueError(f"it cannot be read; {_ESCAPE}")
    host, _, place = where.partition("/")
    user, _, password = login.partition(":")
    return _Part(_address(host, _PORTS[scheme]), unquote(user), unquote(password), unquote(place))


def _address(host: str, port: int) -> Address:
    has_port = ":" in host.rpartition("]")[2]
    try:
        return parse_address((host or "127.0.0.1") + ("" if has_port else f":{port}"))
    except ValueError:
        raise ValueError(f"where a host stands, write host:port; {_ESCAPE}") from None


def _only(what: str, given: set[str]) -> str:
    said = given - {""}
    if len(said) > 1:
        raise ValueError(f"its hosts name more than one {what}; name it once")
    return said.pop() if said else ""


def _place(kind: Kind, place: str) -> str:
    if kind == "amqp":
        return place or "/"
    if place and not (place.isascii() and place.isdigit()):
        raise ValueError("what follows the host is the number of a database, such as /0")
    return place or "0"


def _options(query: str, kind: Kind, *, encrypted: bool) -> tuple[dict[str, Any], Tls | None]:
    given = _pairs(query)
    # Sentinel has no scheme of its own for TLS: naming any of its options asks for it.
    encrypted = encrypted or (kind == "sentinel" and any(name in TLS_OPTIONS for name in given))
    known = {**OPTIONS[kind], **(TLS_OPTIONS if encrypted else {})}
    parsed: dict[str, Any] = {}
    for name, raw in given.items():
        if name not in known:
            raise ValueError(_unknown(name, kind, known))
        try:
            parsed[name] = known[name](raw)
        except ValueError as error:
            raise ValueError(f"the option {name} must be {error}") from None
    if kind == "sentinel" and "master_name" not in parsed:
        raise ValueError("sentinel:// needs the option master_name, such as ?master_name=mymaster")
    tls = Tls.of({name: value for name, value in parsed.items() if name in TLS_OPTIONS}) if encrypted else None
    return {name: value for name, value in parsed.items() if name not in TLS_OPTIONS}, tls


def _pairs(query: str) -> dict[str, str]:
    pairs = parse_qsl(query, keep_blank_values=True)
    names = [name for name, _ in pairs]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise ValueError(f"the option {twice[0]} is named twice; name it once")
    return dict(pairs)


def _unknown(name: str, kind: Kind, known: Mapping[str, Any]) -> str:
    shown = name if name.isidentifier() and len(name) <= 40 else "(unreadable)"
    if name in TLS_OPTIONS:
        return (
            f"the option {shown} is for encrypted connections; begin with {'amqps' if kind == 'amqp' else 'rediss'}://"
        )
    return f"there is no option {shown}; there are {', '.join(sorted(known))}"
