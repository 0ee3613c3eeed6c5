"""The demo's scenario: one event for each type of trigger."""

import asyncio
import base64
import http.client
import json
import secrets
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from pymongo.asynchronous.database import AsyncDatabase

from triggers.webhook.schemes.standard_webhooks import SECRET_PREFIX, decode_secret, sign
from workers.setting_values import Address
from workflows.package.catalog import LIBRARY

SECRET_VARIABLE = "DAILY_DIGEST_SECRET"  # noqa: S105 -- the variable's name
TRIGGER_FILES = Path(__file__).resolve().parent / "triggers"

# The demo waits for one ended run of each.
EXPECTED_TRIGGER_TYPES = ("schedule", "database_condition", "webhook", "form_submit")


def new_secret() -> str:
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(32)).decode("ascii")


def prepare_packages(folder: Path) -> Path:
    """Copy the shipped packages, and replace their triggers by the demo's own."""
    target = folder / "packages"
    shutil.copytree(LIBRARY, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    for overlay in TRIGGER_FILES.glob("*.yaml"):
        shutil.copyfile(overlay, target / overlay.stem / "triggers.yaml")
    return target


@dataclass(frozen=True, slots=True)
class DemoScenario:
    """Causes events: writes to the shop's database, calls the gateway."""

    gateway: Address
    database: AsyncDatabase[dict[str, Any]]
    secret: str

    async def is_gateway_ready(self) -> bool:
        try:
            status, _ = await asyncio.to_thread(self._request, "GET", "/readyz", b"", {})
        except OSError:
            return False
        return status == 200

    async def pay_order(self) -> str:
        order = {
            "_id": f"order-{secrets.token_hex(3)}",
            "app_id": "acme",
            "status": "paid",
            "total": 184.5,
            "currency": "EUR",
            "customer": "Ada",
        }
        await self.database.client["shop"]["orders"].insert_one(order)
        return str(order["_id"])

    async def close_day(self) -> None:
        """Send a signed webhook twice, as senders do; the second delivery starts no run."""
        body = json.dumps({"type": "day.closed", "data": {"region": "us"}}).encode()
        delivery, stamp = f"msg_{secrets.token_hex(8)}", str(int(time.time()))
        key = decode_secret(self.secret) or b""
        signed = f"{delivery}.{stamp}.".encode() + body
        headers = {
            "content-type": "application/json",
            "webhook-id": delivery,
            "webhook-timestamp": stamp,
            "webhook-signature": f"v1,{sign(key, signed)}",
        }
        await self._post("/hooks/globex/DailyDigest/warehouse-closed", body, headers, expected=202)
        await self._post("/hooks/globex/DailyDigest/warehouse-closed", body, headers, expected=200)

    async def request_follow_up(self, order_id: str) -> None:
        body = urlencode({"order_id": order_id, "email": "support@acme.example"}).encode()
        headers = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}
        await self._post("/forms/acme/OrderFollowUp/ask-for-follow-up", body, headers, expected=202)

    async def _post(self, path: str, body: bytes, headers: dict[str, str], *, expected: int) -> None:
        status, answer = await asyncio.to_thread(self._request, "POST", path, body, headers)
        if status != expected:
            raise RuntimeError(f"POST {path} answered {status}, not {expected}: {answer[:300]!r}")

    def _request(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection(self.gateway.host, self.gateway.port, timeout=10)
        try:
            connection.request(method, path, body, headers)
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()
