"""One embedded server process: starts it, waits until it is ready, restarts it, stops it."""

import asyncio
import json
import logging
import time
from asyncio.subprocess import Process
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from ops.embedded.binaries import ServerBinary
from ops.embedded.embedded_error import EmbeddedError
from ops.embedded.loopback_ports import find_free_port
from ops.processes.child_process import kill_child_group, start_child, stop_child
from ops.processes.restart_policy import RestartPolicy

logger = logging.getLogger(__name__)

_MAX_PORT_ATTEMPTS = 5
# Recovery after a power cut replays a journal; an ordinary start takes 0.2 s.
_START_TIMEOUT_S = 60.0
_STOP_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class ServerSpec:
    """The parts in which the embedded servers differ.

    `wait_ready` takes the port and a function that returns whether the process is alive. It returns true when this
    process answers on the port, and false when it has died. It polls that function, since the clients' waits on Python
    3.11 can lose a cancellation. `prepare` runs before the first start.
    """

    name: str
    binary: ServerBinary
    log: Path
    argv: Callable[[int], Sequence[str]]
    wait_ready: Callable[[int, Callable[[], bool]], Awaitable[bool]]
    advice: str
    prepare: Callable[[int], Awaitable[None]] | None = None


class PortTakenError(Exception):
    """Another process listens on the chosen port."""


class EmbeddedServer:
    def __init__(self, spec: ServerSpec, *, lock_fd: int, policy: RestartPolicy | None = None) -> None:
        self.spec = spec
        self.port = 0
        self._lock_fd = lock_fd
        self._policy = policy or RestartPolicy()
        self._process: Process | None = None
        self._is_stopping = False

    @property
    def pid(self) -> int | None:
        return self._process.pid if self._process and self._process.returncode is None else None

    async def start(self, preferred_port: int | None) -> None:
        for _ in range(_MAX_PORT_ATTEMPTS):
            self.port = find_free_port(preferred_port)
            try:
                if self.spec.prepare:
                    await self.spec.prepare(self.port)
                await self._start_once()
            except PortTakenError:
                preferred_port = None
            else:
                return
        raise EmbeddedError(f"{self.spec.name} found no free port in {_MAX_PORT_ATTEMPTS} attempts; start again")

    async def keep_running(self) -> None:
        """Starts it again on the same port each time it dies, until cancelled."""
        deaths = 0
        started = time.monotonic()
        while self._process:
            code = await self._process.wait()
            if self._is_stopping:
                return
            deaths = self._policy.count_deaths(deaths, time.monotonic() - started)
            delay_s = self._policy.delay_s(deaths)
            logger.error(
                "embedded_server_died",
                extra={"server": self.spec.name, "exit_code": code, "log": str(self.spec.log), "restart_in_s": delay_s},
            )
            await asyncio.sleep(delay_s)
            started = time.monotonic()
            # A start that fails leaves a dead process behind, which the next round sees.
            with suppress(EmbeddedError, PortTakenError, OSError):
                await self._start_once()

    async def stop(self) -> None:
        """Stops it for good, also if a restart is in progress."""
        self._is_stopping = True
        await self._stop_process()

    async def _stop_process(self) -> None:
        if self._process:
            await stop_child(self._process, grace_s=_STOP_TIMEOUT_S)

    def kill(self) -> None:
        if self._process:
            kill_child_group(self._process)

    async def _start_once(self) -> None:
        log_start = self.spec.log.stat().st_size if self.spec.log.exists() else 0
        argv = self.spec.argv(self.port)
        self._process = await start_child(
            argv, death_signal="TERM", output=self.spec.log, inherited_fds=(self._lock_fd,)
        )
        ready, ended, give_up_at = False, "", time.monotonic() + _START_TIMEOUT_S
        try:
            ready = await self.spec.wait_ready(self.port, lambda: self._should_wait(give_up_at))
            code = self._process.returncode
            ended = f"not ready within {_START_TIMEOUT_S:.0f} s" if code is None else f"exit code {code}"
        finally:
            if not ready:
                await self._stop_process()
        if not ready:
            raise self._start_error(read_log_since(self.spec.log, log_start), ended)
        logger.info("embedded_server_ready", extra={"server": self.spec.name, "port": self.port, "pid": self.pid})

    def _should_wait(self, give_up_at: float) -> bool:
        return self.pid is not None and not self._is_stopping and time.monotonic() < give_up_at

    def _start_error(self, log_text: str, end_text: str) -> Exception:
        if "address already in use" in log_text.lower():
            return PortTakenError(log_text)
        return EmbeddedError(
            f"{self.spec.name} did not start ({end_text}: {last_error_line(log_text)}); "
            f"see {self.spec.log}; {self.spec.advice}"
        )


def read_log_since(log: Path, start: int) -> str:
    """Reads what the server has logged since its start."""
    try:
        with log.open("rb") as file:
            file.seek(start if start <= log.stat().st_size else 0)  # the log was rolled
            return file.read()[-50_000:].decode(errors="replace")
    except OSError:
        return ""


def last_error_line(log_text: str) -> str:
    """Returns the last error if the server marks errors (mongod), else the last line."""
    lines = [line.strip() for line in log_text.splitlines() if line.strip()]
    errors = [error for error in map(_mongod_error, lines) if error]
    return (errors or lines or ["it logged nothing"])[-1][:300]


def _mongod_error(line: str) -> str:
    try:
        entry = json.loads(line)
        # Errors without attributes only announce that another one ends the process.
        return f"{entry['msg']}: {json.dumps(entry['attr'])}" if entry["s"] in {"E", "F"} and entry["attr"] else ""
    except (ValueError, KeyError, TypeError):
        return ""
