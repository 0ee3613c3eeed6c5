"""The addresses of the embedded servers: a small file in the data directory, for as long as they run."""

import json
import os
import socket
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from urllib.parse import urlsplit

from workers.settings import Settings, SettingsError

SERVICES_FILE = "services.json"
_CONNECT_TIMEOUT_S = 1.0


class NothingRunning(SettingsError):  # noqa: N818 -- reads as what it says: nothing is running
    """No server to talk to: none is configured and none of ours runs."""


@dataclass(frozen=True, slots=True)
class Services:
    """Where the embedded servers listen; a server that the user brought himself is None."""

    mongodb_url: str | None
    redis_url: str | None
    owner_pid: int
    mongodb_version: str | None = None
    redis_version: str | None = None

    def fill(self, settings: Settings) -> Settings:
        """Settings whose absent URLs are ours; a URL that the user gave always wins."""
        return replace(
            settings,
            mongodb_url=settings.mongodb_url or self.mongodb_url,
            redis_url=settings.redis_url or self.redis_url,
        )


def with_services(settings: Settings, *, redis: bool = True) -> Settings:
    """Settings with their URLs: given ones as they are, absent ones from the embedded servers that run.

    Who only reads the store passes `redis=False` and is served without a broker.
    """
    if settings.mongodb_url and (settings.redis_url or not redis):
        return settings
    services = read_services(settings.data_dir)
    filled = services.fill(settings) if services else settings
    needed = [("UNATTENDED_MONGODB_URL", filled.mongodb_url)]
    if redis:
        needed.append(("UNATTENDED_REDIS_URL", filled.redis_url))
    absent = [name for name, url in needed if not url]
    if absent:
        raise NothingRunning(f"nothing is running: start `unattended up`, or set {' and '.join(absent)}")
    return filled


def read_services(data_dir: Path) -> Services | None:
    """What runs on this data directory; None also for the file of an owner that was killed."""
    try:
        raw = json.loads((data_dir / SERVICES_FILE).read_text(encoding="utf-8"))
        services = Services(**{each.name: raw[each.name] for each in fields(Services)})
        return services if _is_alive(services) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # absent, or damaged in some way
        return None


def write_services(data_dir: Path, services: Services) -> None:
    target = data_dir / SERVICES_FILE
    fresh = target.with_suffix(".new")
    # Readers see the old file or the new one, never half of one.
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(services), file, indent=2)
    fresh.replace(target)


def remove_services(data_dir: Path) -> None:
    (data_dir / SERVICES_FILE).unlink(missing_ok=True)


def process_exists(pid: int) -> bool:
    if pid < 1:  # 0 and negative numbers would ask about whole groups of processes
        return False
    try:
        os.kill(pid, 0)
    except PermissionError:
        return True
    except (ProcessLookupError, OverflowError):
        return False
    return True


def _is_alive(services: Services) -> bool:
    urls = [url for url in (services.mongodb_url, services.redis_url) if url]
    return process_exists(services.owner_pid) and all(_accepts_connections(url) for url in urls)


def _accepts_connections(url: str) -> bool:
    parts = urlsplit(url)
    try:
        socket.create_connection((parts.hostname, parts.port), _CONNECT_TIMEOUT_S).close()
    except OSError:
        return False
    return True
