"""A private RabbitMQ node for tests, which may be killed and restarted."""

import os
import shutil
from asyncio.subprocess import Process
from pathlib import Path
from typing import Any

import pytest
from kombu import Connection

from ops.embedded.loopback_ports import LOOPBACK, is_port_open
from ops.processes.child_process import kill_child_group, start_child, stop_child
from tests.integration.stage import wait_until
from tests.integration.workers.broker_servers import Certificates
from tests.lasting_ports import lasting_port
from tests.server_logs import WatchedServer

RABBITMQ = Path("/usr/lib/rabbitmq/bin/rabbitmq-server")
LASTING = "lasting"  # a queue that exists when the node starts


def require_rabbitmq() -> None:
    """In CI a missing RabbitMQ is a failure: .ci/run installs it."""
    if RABBITMQ.exists() and shutil.which("epmd"):
        return
    if os.environ.get("CI"):
        pytest.fail("RabbitMQ is not installed; .ci/run should have done it")
    pytest.skip("RabbitMQ is not installed here: apt-get install rabbitmq-server")


class RabbitMQ:
    """A node with its own folder, cookie, ports and name server."""

    def __init__(self, folder: Path, certificates: Certificates) -> None:
        self.port, self.tls_port = lasting_port(), lasting_port()
        self._folder = folder
        self._epmd_port = lasting_port()
        self._epmd: Process | None = None
        self.process: Process | None = None
        self._watched = WatchedServer(
            "RabbitMQ", folder / "server.log", lambda: self.process.returncode if self.process else None
        )
        folder.mkdir(parents=True)
        (folder / "plugins").write_text("[].")
        lines = [
            f"listeners.tcp.1 = {LOOPBACK}:{self.port}",
            f"listeners.ssl.1 = {LOOPBACK}:{self.tls_port}",
            f"ssl_options.cacertfile = {certificates.ca}",
            f"ssl_options.certfile = {certificates.server}",
            f"ssl_options.keyfile = {certificates.server_key}",
            "ssl_options.verify = verify_peer",
            "ssl_options.fail_if_no_peer_cert = true",
            "disk_free_limit.absolute = 1MB",
        ]
        (folder / "rabbitmq.conf").write_text("\n".join(lines) + "\n")
        self._environment = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "ERL_EPMD_PORT": str(self._epmd_port),
            "ERL_EPMD_ADDRESS": LOOPBACK,
            "RABBITMQ_NODENAME": f"test{self.port}@localhost",
            "RABBITMQ_DIST_PORT": str(lasting_port()),
            "RABBITMQ_CONFIG_FILE": str(folder / "rabbitmq.conf"),
            "RABBITMQ_ENABLED_PLUGINS_FILE": str(folder / "plugins"),
            "RABBITMQ_MNESIA_BASE": str(folder / "mnesia"),
            "RABBITMQ_LOG_BASE": str(folder / "log"),
            "RABBITMQ_PID_FILE": str(folder / "pid"),
            "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": "+S 2:2 +sbwt none",
        }

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@{LOOPBACK}:{self.port}//"

    async def start(self) -> None:
        if self._epmd is None:
            log = self._folder / "epmd.log"
            self._epmd = await start_child(
                [shutil.which("epmd") or "", "-port", str(self._epmd_port)],
                death_signal="KILL",
                output=log,
                env=self._environment,
            )
            await wait_until("epmd listens", lambda: is_port_open(self._epmd_port))
        log = self._folder / "server.log"
        self.process = await start_child([str(RABBITMQ)], death_signal="KILL", output=log, env=self._environment)
        await wait_until("RabbitMQ listens", lambda: is_port_open(self.tls_port), within_s=60)
        await wait_until("RabbitMQ listens", lambda: is_port_open(self.port), within_s=60)

    async def kill(self) -> None:
        if self.process is not None:
            kill_child_group(self.process)
            await self.process.wait()
            await wait_until("the ports are closed", self._has_stopped)  # the Erlang process outlives the script

    async def _has_stopped(self) -> bool:
        return not await is_port_open(self.port)

    def declare(self, queue: str) -> int:
        """Declares a queue as the consumer does and counts its messages.

        Fails for another kind of queue.
        """
        with Connection(self.url) as connection:
            channel: Any = connection.default_channel
            kind = {"x-queue-type": "quorum"}
            return int(channel.queue_declare(queue, durable=True, auto_delete=False, arguments=kind).message_count)

    def has_exchange(self, name: str) -> bool:
        with Connection(self.url) as connection:
            channel: Any = connection.default_channel
            try:
                channel.exchange_declare(name, "topic", passive=True)
            except connection.channel_errors:
                return False
            return True

    async def has_stored_queue(self, queue: str) -> bool:
        """RabbitMQ 3.10 stores a new quorum queue within seconds.

        Killed before, it never elects a leader.
        """
        names = [each for each in (self._folder / "mnesia").rglob("names.dets") if queue.encode() in each.read_bytes()]
        return bool(names)

    async def close(self) -> None:
        await self.kill()
        if self._epmd is not None:
            await stop_child(self._epmd, grace_s=2)
