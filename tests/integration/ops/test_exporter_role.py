"""The exporter role on a real store: its numbers match the store, also right after a restart."""

import asyncio
import signal
from asyncio.subprocess import Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from ops.free_ports import find_free_address
from ops.processes.supervisor import role_command
from tests.integration.stage import Stage, relay, wait_until
from workers.setting_values import Address
from workers.settings import as_environment

pytestmark = pytest.mark.integration

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


@asynccontextmanager
async def exporter(stage: Stage, address: Address, *, max_app_labels: int = 100) -> AsyncIterator[Process]:
    settings = replace(stage.settings, metrics_listen=address, max_app_labels=max_app_labels)
    process = await asyncio.create_subprocess_exec(*role_command("exporter"), env=as_environment(settings))
    try:
        yield process
    finally:
        if process.returncode is None:
            process.send_signal(signal.SIGTERM)
        assert await asyncio.wait_for(process.wait(), 15) == 0


async def scrape(address: Address) -> Series:
    async def answer() -> str:
        try:
            async with httpx.AsyncClient() as client:
                text = (await client.get(f"http://{address}/metrics")).text
        except httpx.TransportError:
            return ""
        return text if "unattended_runs_queued" in text else ""

    text: str = await wait_until("the exporter shows the store", answer)
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def counters(series: Series) -> Series:
    return {key: number for key, number in series.items() if key[0].endswith("_total")}


def value(series: Series, name: str, **labels: str) -> float:
    return series[f"unattended_{name}", frozenset(labels.items())]


@pytest.mark.design("D4-104")
async def test_numbers_are_the_stores_and_survive_a_restart(stage: Stage) -> None:
    stage.package("Relay", relay("Relay", ["A", "B"]))
    usage = {"input": 100, "cached_input": 30, "output": 10, "reasoning": 4}
    stage.answers({}, default={"text": "ok", "usage": usage})
    await stage.start_worker()
    for app in ("acme", "acme", "globex"):
        await stage.wait_for_end((await stage.accept("Relay", app_id=app)).run_id)
    await stage.accept("Relay", wake=False)
    address = find_free_address()

    async with exporter(stage, address), httpx.AsyncClient(base_url=f"http://{address}") as client:
        first = await scrape(address)
        probed = [(await client.get(path)).json() for path in ("/healthz", "/readyz")]
    async with exporter(stage, address):
        second = await scrape(address)

    assert probed == [{"status": "ok"}] * 2
    labels = {"app": "acme", "workflow": "Relay", "model": "script", "provider": "script"}
    assert value(first, "runs_total", app="acme", workflow="Relay", trigger="api", outcome="completed") == 2
    assert value(first, "runs_total", app="globex", workflow="Relay", trigger="api", outcome="completed") == 1
    assert value(first, "input_tokens_total", **labels) == 400
    assert value(first, "cached_input_tokens_total", **labels) == 120
    assert value(first, "output_tokens_total", **labels) == 40
    assert value(first, "reasoning_tokens_total", **labels) == 16
    assert value(first, "cost_usd_total", **labels) == pytest.approx(4 * (100 * 1.0 + 10 * 2.0) / 1e6)
    assert value(first, "model_calls_total", ok="true", **labels) == 4
    assert value(first, "agent_input_tokens_total", workflow="Relay", agent="A") == 300
    assert value(first, "runs_queued", hold="") == 1
    assert counters(second) == counters(first)


async def test_retention_and_a_restart_change_no_counter(stage: Stage) -> None:
    ended = {"finished_at": datetime.now(UTC) - timedelta(days=31), "outcome": {"kind": "completed"}}
    for state, app in (("succeeded", "acme"), ("failed", "acme"), ("cancelled", "globex"), ("parked", "acme")):
        run_id = (await stage.accept("Relay", app_id=app, wake=False)).run_id
        gone = {"lane": ""}
        await stage.store.runs.update_one({"_id": run_id}, {"$set": {"state": state, **ended}, "$unset": gone})
    address = find_free_address()

    async with exporter(stage, address):
        before = await scrape(address)
    assert await stage.reconciler().run_pass() == {"retain": {"pruned": 3}}
    async with exporter(stage, address):
        after = await scrape(address)

    assert value(before, "runs_total", app="acme", workflow="Relay", trigger="api", outcome="completed") == 3
    assert value(before, "runs_parked") == 1
    assert counters(after) == counters(before)


async def runs_by_app(stage: Stage, *, max_app_labels: int = 2) -> dict[str, float]:
    address = find_free_address()
    async with exporter(stage, address, max_app_labels=max_app_labels):
        series = await scrape(address)
    return {dict(labels)["app"]: number for (name, labels), number in series.items() if name == "unattended_runs_total"}


async def test_an_app_keeps_its_label_as_apps_join_and_exporters_restart(stage: Stage) -> None:
    async def ended(*apps: str) -> None:
        for app in apps:
            run_id = (await stage.accept("Relay", app_id=app, wake=False)).run_id
            end = {"state": "succeeded", "finished_at": datetime.now(UTC), "outcome": {"kind": "completed"}}
            await stage.store.runs.update_one({"_id": run_id}, {"$set": end, "$unset": {"lane": ""}})

    await ended("m", "n", "m")
    first = await runs_by_app(stage)
    await ended("a", "b", "a", "a")

    assert first == {"m": 2, "n": 1}
    assert await runs_by_app(stage) == {"m": 2, "n": 1, "_other": 4}
    assert await runs_by_app(stage, max_app_labels=3) == {"m": 2, "n": 1, "a": 3, "_other": 1}


async def test_a_person_reads_the_same_numbers_as_a_scraper(stage: Stage) -> None:
    address = find_free_address()
    as_prometheus = {"Accept": "application/openmetrics-text;version=1.0.0", "Accept-Encoding": "gzip"}

    async with exporter(stage, address), httpx.AsyncClient(base_url=f"http://{address}") as client:
        await scrape(address)
        plain = await client.get("/metrics", headers={"Accept-Encoding": "identity"})
        zipped = await client.get("/metrics", headers=as_prometheus)

    assert plain.headers["content-type"] == zipped.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert zipped.headers["content-encoding"] == "gzip"
    assert "\nunattended_runs_parked 0\n" in plain.text
    assert plain.text.count("\n") == zipped.text.count("\n")


async def test_a_taken_port_is_one_line(stage: Stage) -> None:
    address = find_free_address()
    async with exporter(stage, address):
        await scrape(address)

        settings = replace(stage.settings, metrics_listen=address)
        second = await asyncio.create_subprocess_exec(
            *role_command("exporter"), env=as_environment(settings), stderr=asyncio.subprocess.PIPE
        )
        _, complaint = await second.communicate()

    assert second.returncode == 2
    assert complaint.decode().splitlines()[-1] == (
        f"unattended: {address} is taken by another process; stop it or set UNATTENDED_METRICS_LISTEN"
    )
    assert "Traceback" not in complaint.decode()
