"""A real Alertmanager of a test's own: started on free ports with a configuration, asked over its API, stopped."""

import json
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ops.free_ports import find_free_address
from tests.programs import require_program, wait_until_ready
from tests.server_logs import WatchedServer


@dataclass(frozen=True, slots=True)
class Alertmanager:
    address: str

    def alerts(self) -> list[tuple[dict[str, str], str]]:
        """Returns the labels of each firing alert with its state: `active`, `suppressed` or `unprocessed`."""
        with urllib.request.urlopen(f"http://{self.address}/api/v2/alerts", timeout=10) as answer:
            found: list[dict[str, Any]] = json.load(answer)
        return [(each["labels"], each["status"]["state"]) for each in found]


@contextmanager
def alertmanager(folder: Path, config: Path) -> Iterator[Alertmanager]:
    """Data and log are in folder/alertmanager."""
    program = require_program("prometheus-alertmanager", package="prometheus-alertmanager")
    place = folder / "alertmanager"
    place.mkdir(parents=True)
    address = str(find_free_address())
    arguments = (f"--config.file={config}", f"--storage.path={place / 'data'}", f"--web.listen-address={address}")
    with (place / "log").open("wb") as log:
        process = subprocess.Popen([program, *arguments, "--cluster.listen-address="], stdout=log, stderr=log)
    watched = WatchedServer("Alertmanager", place / "log", process.poll)
    try:
        wait_until_ready(process, address, place / "log")
        yield Alertmanager(address)
    finally:
        process.kill()  # its data is nobody's
        process.wait(10)
        del watched
