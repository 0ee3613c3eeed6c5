"""What a Prometheus beside `unattended up` reads: where the five roles are, and a configuration that finds them."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from ops.embedded.embedded_error import EmbeddedError
from workers.setting_values import Address

CONFIG_FOLDER = "prometheus"
TARGETS_FILE = "targets.json"
ALERTS_FOLDER = Path(__file__).parent / "alerts"
# Where Alertmanager listens unless it is told otherwise. Without one, Prometheus shows the alerts on its own page.
ALERTMANAGER_ADDRESS = "127.0.0.1:9093"
HEADER = "# Written anew by each `unattended up`.\n"
LOOPBACK_OF_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 -- not bound, replaced


def scrape_config_path(data_dir: Path) -> Path:
    return data_dir / CONFIG_FOLDER / "prometheus.yml"


@contextmanager
def scrape_files(data_dir: Path, addresses: Mapping[str, Address]) -> Iterator[None]:
    """The configuration stays. The targets go with us: what was stopped on purpose is not down."""
    config = scrape_config_path(data_dir.expanduser().resolve())
    folder = config.parent
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Others may read this part of it: in a container, Prometheus is a user of its own.
        folder.mkdir(mode=0o755, exist_ok=True)
        _write_atomically(config, HEADER + yaml.safe_dump(prometheus_config(folder), sort_keys=False))
        _write_atomically(folder / TARGETS_FILE, json.dumps(scrape_targets(addresses), indent=2))
    except OSError as error:
        raise EmbeddedError(f"{folder} cannot be written ({error.strerror}); choose another --data-dir") from None
    try:
        yield
    finally:
        (folder / TARGETS_FILE).unlink(missing_ok=True)


def scrape_targets(addresses: Mapping[str, Address]) -> list[dict[str, Any]]:
    """As `file_sd_configs` take them."""
    return [
        {"targets": [str(Address(LOOPBACK_OF_ANY.get(each.host, each.host), each.port))], "labels": {"role": role}}
        for role, each in addresses.items()
    ]


def prometheus_config(folder: Path) -> dict[str, Any]:
    found_in = [{"files": [str(folder / TARGETS_FILE)], "refresh_interval": "5s"}]
    return {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
        "rule_files": [str(ALERTS_FOLDER / "*.yaml")],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [ALERTMANAGER_ADDRESS]}]}]},
        "scrape_configs": [{"job_name": "unattended", "file_sd_configs": found_in}],
    }


def _write_atomically(path: Path, text: str) -> None:
    fresh = path.with_suffix(".new")
    fresh.write_text(text, encoding="utf-8")
    fresh.replace(path)
