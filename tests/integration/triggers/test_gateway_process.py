"""The gateway as a process: ready, stopped by a signal, refused by a taken port."""

import asyncio
import signal
import socket
import sys
import time
from asyncio.subprocess import PIPE, Process
from dataclasses import replace
from pathlib import Path

import httpx
import pytest

from tests.integration.triggers.condition_wait import wait_until
from tests.integration.triggers.gateway_server import settings_with_package, sign_as_standard
from tests.lasting_ports import lasting_port
from workers.setting_values import Address
from workers.settings import Settings, as_environment
from workers.store.run_store import RunStore, connect

pytestmark = pytest.mark.integration

PROGRAM = """
import asyncio, sys
from triggers.gateway.gateway_role import run, serve
from workers.logs import configure_logging
from workers.settings import SettingsError, load_settings
configure_logging(role="gateway", log_format="json", log_level="info")
try:
    {start}
except SettingsError as error:
    sys.exit(str(error))
"""


ON_ASYNCIO = "asyncio.run(serve(load_settings()))"
ON_UVLOOP = "run(load_settings())"


async def start(settings: Settings, port: int, *, how: str = ON_UVLOOP) -> Process:
    environment = as_environment(replace(settings, listen=Address("127.0.0.1", port)))
    return await asyncio.create_subprocess_exec(
        sys.executable, "-c", PROGRAM.replace("{start}", how), env=environment, stderr=PIPE
    )


async def wait_until_ready(client: httpx.AsyncClient, *, within_s: float = 20) -> None:
    give_up_at = time.monotonic() + within_s
    while True:
        try:
            if (await client.get("/readyz")).status_code == 200:
                return
        except httpx.TransportError:
            pass
        assert time.monotonic() < give_up_at, "the gateway is not ready"
        await asyncio.sleep(0.05)


@pytest.mark.parametrize(("stop", "how"), [(signal.SIGTERM, ON_ASYNCIO), (signal.SIGINT, ON_UVLOOP)])
async def test_a_gateway_accepts_and_stops_in_order(
    settings: Settings, tmp_path: Path, stop: signal.Signals, how: str
) -> None:
    port = lasting_port()
    process = await start(settings_with_package(settings, tmp_path), port, how=how)
    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        await wait_until_ready(client)
        answer = await client.post("/hooks/acme/Sales/paid", **sign_as_standard("{}"))
        process.send_signal(stop)
    _, errors = await asyncio.wait_for(process.communicate(), 15)

    assert answer.status_code == 202
    assert process.returncode == 0, errors.decode()
    assert f'"event": "gateway_ready", "address": "127.0.0.1:{port}"' in errors.decode()
    assert '"event": "gateway_stopped"' in errors.decode()
    database = connect(settings.mongodb_url or "", database=settings.database)
    assert await RunStore(database).find(answer.json()["run_id"]) is not None
    await database.client.close()


async def test_what_became_of_calls_is_written_while_the_gateway_runs(settings: Settings, tmp_path: Path) -> None:
    port = lasting_port()
    process = await start(settings_with_package(settings, tmp_path), port)
    database = connect(settings.mongodb_url or "", database=settings.database)
    call = sign_as_standard("{}")
    kind = {"content-type": "multipart/form-data; boundary=x"}

    async def is_told() -> bool:
        document = await database["triggers"].find_one({"_id": "Sales/paid"})
        return document is not None and document["counts"] == {"accepted": 1, "duplicate": 1}

    async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as client:
        await wait_until_ready(client)
        assert [(await client.post("/hooks/acme/Sales/paid", **call)).status_code for _ in range(2)] == [202, 200]
        await wait_until(is_told, "both calls are counted in the trigger's document")
        assert (await client.post("/forms/acme/Sales/lead", content=b"--x\r\n\xff", headers=kind)).status_code == 400
    process.send_signal(signal.SIGTERM)
    _, log = await asyncio.wait_for(process.communicate(), 15)
    assert b"invalid character" not in log  # the parser's own messages: callers decide how often they come
    await database.client.close()


async def test_a_taken_port_is_one_clear_line(settings: Settings, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = other.getsockname()[1]
        process = await start(settings_with_package(settings, tmp_path), port)
        _, errors = await asyncio.wait_for(process.communicate(), 15)

    assert process.returncode == 1
    expected = f"127.0.0.1:{port} is taken by another process; stop it or set UNATTENDED_LISTEN\n"
    assert errors.decode() == expected
