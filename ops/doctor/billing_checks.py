"""Checks of the billing export: its settings, its secrets, and its endpoint."""

import asyncio
import ssl
from contextlib import suppress
from urllib.parse import urlsplit

from accounting.billing.batch_signature import parse_signing_keys
from accounting.billing.http_post import create_ssl_context
from ops.doctor.check_result import Check, error_line
from workers.settings import Settings, SettingsError

_TIMEOUT_S = 2.0
CHECK_NAME = "billing"


async def check_billing(settings: Settings) -> list[Check]:
    if settings.billing_url is None:
        if not settings.billing_secret:
            return []
        found = "UNATTENDED_BILLING_SECRET is set, but UNATTENDED_BILLING_URL is not: nothing is posted"
        return [Check(CHECK_NAME, "warning", found, "set both, or neither")]
    problem = _check_secrets(settings)
    return [*([problem] if problem else []), await _check_endpoint(settings.billing_url)]


def _check_secrets(settings: Settings) -> Check | None:
    if not settings.billing_secret:
        return Check(CHECK_NAME, "problem", "the signing secret is missing", "set UNATTENDED_BILLING_SECRET")
    for reference in sorted(settings.billing_secret):
        try:
            parse_signing_keys([settings.resolve_secret(reference)])
        except SettingsError as error:
            return Check(CHECK_NAME, "problem", error_line(error), "set it for the scheduler role")
        except ValueError as error:
            advice = 'create one: echo "whsec_$(openssl rand -base64 32)"'
            return Check(CHECK_NAME, "problem", f"{reference}: {error}", advice)
    return None


async def _check_endpoint(url: str) -> Check:
    """Connect without posting. The check shows host and port only, as the path may hold a token."""
    parts = urlsplit(url)
    is_secure = parts.scheme == "https"
    port = parts.port or (443 if is_secure else 80)
    address = f"{parts.hostname}:{port}"
    try:
        async with asyncio.timeout(_TIMEOUT_S):
            _, writer = await asyncio.open_connection(
                parts.hostname, port, ssl=create_ssl_context() if is_secure else None
            )
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
    except ssl.SSLError as error:
        found = f"the certificate of {address} is not trusted: {error_line(error)}"
        return Check(CHECK_NAME, "problem", found, "renew it, or trust its authority")
    except OSError as error:  # includes TimeoutError
        return Check(CHECK_NAME, "problem", f"{address} does not answer: {error_line(error)}", "check that it runs")
    return Check(CHECK_NAME, "ok", f"{address} answers")
