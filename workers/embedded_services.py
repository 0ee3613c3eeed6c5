"""The addresses of the embedded servers, in a file while they run."""

import json
import os
import socket
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from urllib.parse import urlsplit

from workers.settings import Settings, SettingsError

SERVICES_FILE = "services.json"
_CONNECT_TIMEOUT_S = 1.0


class NothingRunning(SettingsError):  # noqa: N818 -- it reads as its own message
    """No server is configured, and no embedded one is running."""


@dataclass(frozen=True, slots=True)
class Services:
    """Where the embedded servers listen. None: the user has a server of his own."""

    mongodb_url: str | None
    redis_url: str | None
    owner_pid: int
    mongodb_version: str | None = None
    redis_version: str | None = None

    def fill(self, settings: Settings) -> Settings:
        """Returns the settings with missing URLs filled in; URLs of the user win."""
        return replace(
            settings,
            mongodb_url=settings.mongodb_url or self.mongodb_url,
            redis_url=settings.redis_url or self.redis_url,
        )


def with_services(settings: Settings, *, redis: bool = True) -> Settings:
    """Returns the settings with URLs, if missing those of running embedded servers.

    Callers that only read the store pass `redis=False` and need no broker.
    """
    if settings.mongodb_url and (settings.redis_url or not redis):
        return settings
    services = read_services(settings.data_dir)
    filled = services.fill(settings) if services else settings
    needed = [("UNATTENDED_MONGODB_URL", filled.mongodb_url)]
    if redis:
        needed.append(("UNATTENDED_REDIS_URL", filled.redis_url))
    missing = [name for name, url in needed if not url]
    if missing:
        raise NothingRunning(f"nothing is running: start `unattended up`, or set {' and '.join(missing)}")
    return filled


def read_services(data_dir: Path) -> Services | None:
    """Reads what runs on this data directory.

    None too if the owner of the file was killed.
    """
    try:
        raw = json.loads((data_dir / SERVICES_FILE).read_text(encoding="utf-8"))
        services = Services(**{field.name: raw[field.name] for field in fields(Services)})
        return services if _is_alive(services) else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):  # missing or damaged
        return None


def write_services(data_dir: Path, services: Services) -> None:
    target = data_dir / SERVICES_FILE
    new_file = target.with_suffix(".new")
    # Readers see the old file or the new one, never a part.
    with os.fdopen(os.open(new_file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as file:
        json.dump(asdict(services), file, indent=2)
    new_file.replace(target)


def remove_services(data_dir: Path) -> None:
    (data_dir / SERVICES_FILE).unlink(missing_ok=True)


def process_exists(pid: int) -> bool:
    if pid < 1:  # 0 and negative numbers mean whole process groups
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
