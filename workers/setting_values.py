"""Setting values: parse text from the environment.

Their errors say what to write instead.
"""

import ipaddress
import os
import re
import stat
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from urllib.parse import SplitResult, urlsplit

MAX_SECRET_BYTES = 64 * 1024
MIN_RETENTION_DAYS = 7
MIN_LEDGER_DAYS = 35
TRUE_WORDS = frozenset({"1", "true", "yes", "on"})
FALSE_WORDS = frozenset({"0", "false", "no", "off", ""})
_HOST = re.compile(r"(?:[a-z0-9](?:[a-z0-9._-]{0,251}[a-z0-9])?|\[[0-9a-f.]*:[0-9a-f:.]*\])(?::([1-9][0-9]{0,4}))?")


@dataclass(frozen=True, slots=True)
class Address:
    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def plain_text(raw: str) -> str:
    return raw


def server_url(raw: str) -> str:
    """Returns the URL, or reads it from `file:PATH`.

    With a file no environment contains its password.
    """
    kind, _, name = raw.partition(":")
    if kind != "file":
        return raw
    try:
        url = read_secret_file(name)
    except ValueError as error:
        raise ValueError(f"a URL, or file:PATH of a file that holds it ({error})") from None
    if not url:
        raise ValueError(f"a URL, or file:PATH of a file that holds it; {name} is empty")
    return url


def read_secret_file(name: str, *, directory: Path = Path()) -> str:
    """Reads a small text file. A device or a pipe could fill the memory, or block for ever.

    Raises ValueError with the reason.
    """
    try:
        descriptor = os.open(directory / Path(name).expanduser(), os.O_RDONLY | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ValueError(f"{name} is not a regular file")
            raw = file.read(MAX_SECRET_BYTES + 1)
    except (OSError, RuntimeError) as error:  # RuntimeError: `~name` of an unknown user
        raise ValueError(str(error)) from None
    if len(raw) > MAX_SECRET_BYTES:
        raise ValueError(f"{name} has more than {MAX_SECRET_BYTES // 1024} KB")
    return raw.decode("utf-8").strip()


def database_name(raw: str) -> str:
    if len(raw.encode()) > 63 or set(raw) & set('/\\. "$*<>:|?\0'):
        raise ValueError('a name of at most 63 bytes without spaces and / \\ . " $ * < > : | ?')
    return raw


def path(raw: str) -> Path:
    return Path(raw).expanduser()


def paths(raw: str) -> tuple[Path, ...]:
    return tuple(path(part) for part in raw.split(os.pathsep) if part)


def positive_int(raw: str) -> int:
    number = int(raw) if raw.isascii() and raw.isdigit() and len(raw) <= 9 else 0
    if number < 1:
        raise ValueError("a whole number of at least 1, at most 9 digits")
    return number


@dataclass(frozen=True, slots=True)
class RetentionDays:
    runs: int = 30
    ledger: int = 400

    def __str__(self) -> str:
        return f"{self.runs},ledger={self.ledger}"


def retention_days(raw: str) -> RetentionDays:
    """`90`, `90,ledger=800` or `ledger=800`."""
    days = RetentionDays()
    for part in raw.split(","):
        name, equals, count = part.strip().rpartition("=")
        if (name, equals) not in (("", ""), ("ledger", "=")):
            raise ValueError("days to keep runs and ledger rows, such as 30,ledger=400")
        days = replace(days, **{name or "runs": positive_int(count)})
    if days.runs < MIN_RETENTION_DAYS:
        raise ValueError(f"at least {MIN_RETENTION_DAYS}: for that time a repeated event must find its first run")
    if days.ledger < MIN_LEDGER_DAYS:
        raise ValueError(f"ledger={MIN_LEDGER_DAYS} or more: monthly budgets need these rows")
    return days


def one_of(*words: str) -> Callable[[str], str]:
    def parse(raw: str) -> str:
        if raw.lower() not in words:
            raise ValueError(f"one of {', '.join(words)}")
        return raw.lower()

    return parse


def parse_address(raw: str) -> Address:
    host, _, port = raw.rpartition(":")
    is_port = port.isascii() and port.isdigit() and len(port) <= 5 and int(port) <= 65535
    bracketed = host.startswith("[") and host.endswith("]")  # an IPv6 address contains colons
    host = host[1:-1] if bracketed else host
    if not host or not is_port or (":" in host) != bracketed:
        raise ValueError("host:port, such as 127.0.0.1:8400 or [::1]:8400")
    return Address(host, int(port))


def hosts(raw: str) -> frozenset[str]:
    hosts = [part.strip().lower() for part in raw.split(",") if part.strip()]
    for host in hosts:
        match = _HOST.fullmatch(host)
        if match is None or int(match[1] or 0) > 65535:
            raise ValueError("names of hosts, such as api.example.com,127.0.0.1:8080")
    return frozenset(hosts)


def https_url(raw: str) -> str:
    try:
        parts = urlsplit(raw.strip())
        is_usable = bool(parts.hostname) and parts.port != 0 and raw.strip().isprintable() and " " not in raw.strip()
        (parts.hostname or "").encode("idna")  # as clients do when they connect
    except ValueError:
        is_usable = False
    if not is_usable or parts.scheme not in ("https", "http") or parts.fragment:
        raise ValueError("an address such as https://billing.example.com/usage")
    if "@" in parts.netloc:
        raise ValueError("the address without user and password; UNATTENDED_BILLING_SECRET signs the batches")
    if parts.scheme == "http" and not _is_private_host(parts):
        raise ValueError("an https address; plain http is only for hosts of your own network")
    return raw.strip()


def traces_url(raw: str) -> str:
    url = raw.strip()
    try:
        parts = urlsplit(url)
        is_usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0 and " " not in url
    except ValueError:  # an invalid port, or brackets
        is_usable = False
    if not is_usable or not url.isprintable():
        raise ValueError("an address such as http://127.0.0.1:4318")
    return url


def _is_private_host(parts: SplitResult) -> bool:
    host = parts.hostname or ""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:  # a name without a domain, as in a private network, or of this machine
        return "." not in host or host.endswith((".localhost", ".local", ".internal"))
    return address.is_private or address.is_loopback


def secret_references(raw: str) -> frozenset[str]:
    references = frozenset(re.split(r"[,\s]+", raw.strip())) - {""}
    if not references or any(not re.fullmatch(r"(?:env|file):.+", reference) for reference in references):
        raise ValueError("env:NAME or file:PATH, and never the secret itself")
    return references


def truthy_unless_falsy(raw: str) -> bool:
    return raw.strip().lower() not in FALSE_WORDS


def truthy(raw: str) -> bool:
    return raw.strip().lower() in TRUE_WORDS
