"""Files for a Prometheus beside `unattended up`: its configuration, and the addresses of the roles."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from ops.embedded.embedded_error import EmbeddedError
from ops.free_ports import connectable_host
from workers.setting_values import Address

CONFIG_FOLDER = "prometheus"
TARGETS_FILE = "targets.json"
ALERTS_FOLDER = Path(__file__).parent / "alerts"
# Alertmanager's default address. Without one, Prometheus shows the alerts on its own page.
ALERTMANAGER_ADDRESS = "127.0.0.1:9093"
HEADER = "# Rewritten by each `unattended up`.\n"


def scrape_config_path(data_dir: Path) -> Path:
    return data_dir / CONFIG_FOLDER / "prometheus.yml"


@contextmanager
def scrape_files(data_dir: Path, addresses: Mapping[str, Address]) -> Iterator[None]:
    """Write the files; at the end remove the targets, so that stopped roles are not reported as down."""
    config = scrape_config_path(data_dir.expanduser().resolve())
    folder = config.parent
    try:
        folder.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Readable by other users, as Prometheus in a container runs as one.
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
    """Return the targets in the format of `file_sd_configs`."""
    return [
        {"targets": [str(Address(connectable_host(address), address.port))], "labels": {"role": role}}
        for role, address in addresses.items()
    ]


def prometheus_config(folder: Path) -> dict[str, Any]:
    file_discovery = [{"files": [str(folder / TARGETS_FILE)], "refresh_interval": "5s"}]
    return {
        "global": {"scrape_interval": "15s", "evaluation_interval": "15s"},
        "rule_files": [str(ALERTS_FOLDER / "*.yaml")],
        "alerting": {"alertmanagers": [{"static_configs": [{"targets": [ALERTMANAGER_ADDRESS]}]}]},
        "scrape_configs": [{"job_name": "unattended", "file_sd_configs": file_discovery}],
    }


def _write_atomically(path: Path, text: str) -> None:
    new_file = path.with_suffix(".new")
    new_file.write_text(text, encoding="utf-8")
    new_file.replace(path)
