"""Webhook accepts per second: ours, durable in MongoDB before the answer, against FastAPI with `apply_async`."""

import asyncio
import base64
import json
import os
import sys
from asyncio.subprocess import PIPE, Process
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
from http_load import SECRET
from trigger_context import settings_of, write_package

from ops.free_ports import find_free_address
from ops.processes.supervisor import role_command
from workers.embedded_services import Services
from workers.setting_values import Address
from workers.settings import as_environment

HERE = Path(__file__).resolve().parent
TARGET_RATIO = 1.5
CONNECTIONS = (64, 512)
TRIGGER = {
    "name": "paid",
    "type": "webhook",
    "apps": ["acme"],
    "verify": {"scheme": "standard", "secret": "env:BENCH_SECRET"},
    "when": "type == 'order.paid'",
    "input": {"order": "=data.id", "amount": "=data.amount"},
}


@dataclass(frozen=True)
class Accepts:
    per_second: float
    p50_ms: float
    p99_ms: float
    cpu_ms: float


async def compare(services: Services, folder: Path, *, count: int, repeat: int) -> None:
    print(f"{'webhook accept':<24}{'connections':>12}{'per s':>9}{'p50 ms':>9}{'p99 ms':>9}{'CPU ms':>9}")
    for connections in CONNECTIONS:
        best: dict[str, Accepts] = {}
        for number in range(repeat):
            for path in ("/blocking", "/inline"):
                result = await bare(services, path, connections, count)
                _keep_best(best, f"FastAPI {path}", result)
            ours = await unattended(services, folder / f"{connections}-{number}", connections, count)
            _keep_best(best, "unattended, durable", ours)
        for label, each in best.items():
            numbers = f"{each.per_second:9.0f}{each.p50_ms:9.1f}{each.p99_ms:9.1f}{each.cpu_ms:9.3f}"
            print(f"{label:<24}{connections:>12}{numbers}")
        baseline = max(each.per_second for label, each in best.items() if label.startswith("FastAPI"))
        ratio = best["unattended, durable"].per_second / baseline
        print(f"{'ratio':<24}{connections:>12}{ratio:9.2f}  of the faster FastAPI (aim {TARGET_RATIO})")


def _keep_best(best: dict[str, Accepts], label: str, result: Accepts) -> None:
    if label not in best or result.per_second > best[label].per_second:
        best[label] = result


async def bare(services: Services, path: str, connections: int, count: int) -> Accepts:
    port = find_free_address().port
    server = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "uvicorn", "bare_fastapi:app", "--port", str(port)),
        *("--no-access-log", "--log-level", "warning"),
        cwd=HERE,
        env={**os.environ, "BARE_BROKER": services.redis_url or ""},
    )
    return await _measure_server(server, port, path, "/docs", connections, count)


async def unattended(services: Services, folder: Path, connections: int, count: int) -> Accepts:
    port = find_free_address().port
    secret = f"whsec_{base64.b64encode(SECRET).decode()}"
    settings = settings_of(
        services,
        write_package(folder, TRIGGER),
        listen=Address("127.0.0.1", port),
        log_level="warning",
        environ={"BENCH_SECRET": secret},
    )
    quiet = {**as_environment(settings), "BENCH_SECRET": secret}
    server = await asyncio.create_subprocess_exec(*role_command("gateway"), env=quiet)
    return await _measure_server(server, port, "/hooks/acme/Bench/paid", "/readyz", connections, count)


async def _measure_server(server: Process, port: int, path: str, ready: str, connections: int, count: int) -> Accepts:
    try:
        await _until_ready(f"http://127.0.0.1:{port}{ready}")
        await _load(port, path, connections, count // 5)  # warm
        cpu = _cpu_s(server.pid)
        said = await _load(port, path, connections, count)
        if set(said["statuses"]) != {"202"}:
            raise SystemExit(f"{path}: not all calls were accepted: {said['statuses']}")
        used = _cpu_s(server.pid) - cpu
        return Accepts(said["per_second"], said["p50_ms"], said["p99_ms"], used / count * 1000)
    finally:
        server.terminate()
        await server.wait()


async def _load(port: int, path: str, connections: int, count: int) -> dict[str, float]:
    arguments = (port, path, connections, count)
    child = await asyncio.create_subprocess_exec(
        sys.executable, str(HERE / "http_load.py"), *map(str, arguments), stdout=PIPE
    )
    output, _ = await child.communicate()
    if child.returncode:
        raise SystemExit(f"the load on {path} failed")
    said: dict[str, float] = json.loads(output)
    return said


async def _until_ready(url: str) -> None:
    async with httpx.AsyncClient() as client:
        for _ in range(200):
            try:
                if (await client.get(url)).is_success:
                    return
            except httpx.TransportError:
                pass
            await asyncio.sleep(0.05)
    raise SystemExit(f"{url} does not answer")


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system
