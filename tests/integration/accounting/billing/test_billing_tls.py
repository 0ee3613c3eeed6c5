"""Billing over TLS: only to endpoints that this system trusts. The doctor agrees."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from accounting.billing.delivery_backoff import DeliveryBackoff
from accounting.billing.endpoint_health import EndpointHealth
from accounting.billing.http_post import create_http_client
from accounting.billing.outbox import Outbox
from accounting.billing.sender import BillingSender
from ops.doctor.billing_checks import check_billing
from tests.integration.accounting.billing.receiver import SECRET, billing_receiver
from tests.integration.workers.broker_servers import Certificates, tls_in_front_of
from tests.unit.accounting.billing.rows import row
from workers.settings import Settings
from workers.store.run_store import RunStore

pytestmark = pytest.mark.integration


async def test_only_an_endpoint_with_a_trusted_certificate_gets_anything(
    store: RunStore, settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates = await asyncio.to_thread(Certificates.create, tmp_path / "certificates")
    outbox = Outbox(store.database)
    await outbox.ensure_indexes()
    await outbox.add([row()], None)
    async with billing_receiver() as receiver, tls_in_front_of(receiver.address[1], certificates) as port:
        url = f"https://localhost:{port}/usage"
        with_billing = replace(
            settings, billing_url=url, billing_secret=frozenset({"env:KEY"}), environ={"KEY": SECRET}
        )

        async def post() -> str:
            pace = DeliveryBackoff(delays_s=(0.0,), max_endpoint_pause_s=0.0)
            async with create_http_client() as http:
                endpoint, stop = EndpointHealth(store.database, url, pace), asyncio.Event()
                await BillingSender(
                    outbox, endpoint, http, secrets=lambda: [SECRET], backoff=pace, stop=stop
                ).post_next()
            batch = await store.database["outbox"].find_one({}) or {}
            return str(batch["state"])

        assert await post() == "pending"
        [problem] = await check_billing(with_billing)
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates.ca))
        assert await post() == "delivered"
        [good] = await check_billing(with_billing)

    assert set(receiver.events) == {"run_1:7:1"}
    assert problem.level == "problem"
    assert problem.found.startswith(f"the certificate of localhost:{port} is not trusted: ")
    assert (good.level, good.found) == ("ok", f"localhost:{port} answers")
