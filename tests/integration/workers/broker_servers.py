"""Real brokers on free ports: Redis with Sentinels, and TLS in front of Redis."""

import asyncio
import ssl
import subprocess
from asyncio.subprocess import Process
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from ops.embedded.binaries import find_redis
from ops.embedded.loopback_ports import LOOPBACK, is_port_open
from ops.processes.child_process import kill_child_group, start_child
from tests.integration.stage import wait_until
from tests.lasting_ports import lasting_port
from tests.server_logs import WatchedServer

MASTER = "mymaster"


@dataclass(frozen=True, slots=True)
class Certificates:
    """An authority with a server certificate for localhost and a client certificate.

    Another authority has signed neither.
    """

    folder: Path

    def __getattr__(self, name: str) -> str:
        return str(self.folder / f"{name}.pem")

    @classmethod
    def create(cls, folder: Path) -> "Certificates":
        folder.mkdir(parents=True)
        (folder / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        made = cls(folder)
        for authority in ("ca", "stranger"):
            key = ["-newkey", "rsa:2048", "-nodes", "-keyout", folder / f"{authority}_key.pem"]
            _openssl("req", "-x509", *key, "-out", folder / f"{authority}.pem", "-subj", f"/CN={authority}", "-days", 2)
        for name in ("server", "client"):
            key = ["-newkey", "rsa:2048", "-nodes", "-keyout", folder / f"{name}_key.pem"]
            _openssl("req", *key, "-out", folder / f"{name}.csr", "-subj", f"/CN={name}")
            signed_by = ["-CA", folder / "ca.pem", "-CAkey", folder / "ca_key.pem", "-CAcreateserial"]
            names = ["-extfile", folder / "names", "-days", 2, "-out", folder / f"{name}.pem"]
            _openssl("x509", "-req", "-in", folder / f"{name}.csr", *signed_by, *names)
        return made


def _openssl(*words: Any) -> None:
    subprocess.run(["openssl", *map(str, words)], check=True, capture_output=True)


@asynccontextmanager
async def tls_in_front_of(port: int, certificates: Certificates, *, mutual: bool = False) -> AsyncIterator[int]:
    """Terminates TLS in front of Redis, as a load balancer does.

    The Valkey wheel has no TLS.
    """
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificates.server, certificates.server_key)
    if mutual:
        context.load_verify_locations(certificates.ca)
        context.verify_mode = ssl.CERT_REQUIRED

    async def carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, ssl.SSLError):
            while part := await reader.read(65_536):
                writer.write(part)
                await writer.drain()
        writer.close()

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back_reader, back_writer = await asyncio.open_connection(LOOPBACK, port)
        await asyncio.gather(carry(reader, back_writer), carry(back_reader, writer))

    server = await asyncio.start_server(connected, LOOPBACK, 0, ssl=context)
    try:
        yield server.sockets[0].getsockname()[1]
    finally:
        server.close()


class RedisProcess:
    """A Redis server or Sentinel that a test may kill and restart."""

    def __init__(self, folder: Path, *flags: str, configuration: Sequence[str] = (), sentinel: bool = False) -> None:
        self.port = lasting_port()
        self.process: Process | None = None
        self._log = folder / f"{self.port}.log"
        file = folder / f"{self.port}.conf"
        file.write_text("\n".join([f"port {self.port}", f"bind {LOOPBACK}", f"dir {folder}", *configuration, ""]))
        self._argv = [str(find_redis().path), str(file), *flags, *(["--sentinel"] if sentinel else [])]
        self._watched = WatchedServer(
            "Sentinel" if sentinel else "Redis", self._log, lambda: self.process.returncode if self.process else None
        )

    async def start(self) -> None:
        self.process = await start_child(self._argv, death_signal="KILL", output=self._log)
        await wait_until(f"{self._log} says it listens", lambda: is_port_open(self.port))

    async def execute(self, *command: str) -> Any:
        async with Redis(host=LOOPBACK, port=self.port, decode_responses=True) as client:
            return await client.execute_command(*command)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped

    async def kill(self) -> None:
        if self.process is not None:
            kill_child_group(self.process)
            await self.process.wait()


@dataclass(frozen=True, slots=True)
class WatchedRedis:
    """A master and a replica, watched by three Sentinels."""

    redis: list[RedisProcess]
    sentinels: list[RedisProcess]

    @property
    def url(self) -> str:
        hosts = ";".join(f"sentinel://{LOOPBACK}:{each.port}" for each in self.sentinels)
        return f"{hosts}/0?master_name={MASTER}"

    async def master(self) -> int:
        """Returns the port of the master that the Sentinels agree on, 0 while they do not."""
        said = {each.port: await each.execute("SENTINEL", "GET-MASTER-ADDR-BY-NAME", MASTER) for each in self.sentinels}
        ports = {int(address[1]) for address in said.values() if address}
        return ports.pop() if len(ports) == 1 else 0

    async def fail_over(self) -> None:
        await self.sentinels[0].execute("SENTINEL", "FAILOVER", MASTER)

    async def is_ready(self) -> bool:
        """Checks that the Sentinels have found each other and the replica.

        Only then can they fail over.
        """
        states = [(await each.execute("SENTINEL", "MASTERS"))[0] for each in self.sentinels]
        return all((int(state["num-other-sentinels"]), int(state["num-slaves"])) == (2, 1) for state in states)


@asynccontextmanager
async def watched_redis(folder: Path) -> AsyncIterator[WatchedRedis]:
    nothing_kept = ["save ''", "appendonly no", "repl-diskless-sync-delay 0", "repl-ping-replica-period 1"]
    master = RedisProcess(folder, configuration=nothing_kept)
    replica = RedisProcess(folder, configuration=[*nothing_kept, f"replicaof {LOOPBACK} {master.port}"])
    watch = [
        f"sentinel monitor {MASTER} {LOOPBACK} {master.port} 2",
        f"sentinel down-after-milliseconds {MASTER} 800",
        f"sentinel failover-timeout {MASTER} 3000",
    ]
    sentinels = [RedisProcess(folder, configuration=watch, sentinel=True) for _ in range(3)]
    async with AsyncExitStack() as stack:
        for each in (master, replica, *sentinels):
            stack.push_async_callback(each.kill)
            await each.start()
        watched = WatchedRedis([master, replica], sentinels)
        await wait_until("the Sentinels know each other and the replica", watched.is_ready)
        for each in sentinels:  # otherwise they communicate every few seconds, for which a test would wait
            await each.execute("SENTINEL", "DEBUG", "info-period", "300", "publish-period", "200")
        yield watched
