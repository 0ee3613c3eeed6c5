"""The doctor's checks of the billing export: none without one, and no secret in their text."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace

import pytest

from ops.doctor.billing_checks import check_billing
from ops.doctor.check_result import Check
from workers.settings import Settings

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
NOWHERE = Settings(environ={"GOOD": SECRET, "SHORT": "whsec_c2hvcnQ=", "EMPTY": ""})


@asynccontextmanager
async def listening_endpoint() -> AsyncIterator[str]:
    async def leave(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    async with await asyncio.start_server(leave, "127.0.0.1", 0) as server:
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"


def posting_to(url: str, *references: str) -> Settings:
    return replace(NOWHERE, billing_url=url, billing_secret=frozenset(references))


async def test_without_billing_there_is_no_finding() -> None:
    assert await check_billing(NOWHERE) == []


async def test_a_secret_without_an_address_is_half_of_it() -> None:
    [check] = await check_billing(replace(NOWHERE, billing_secret=frozenset({"env:GOOD"})))

    assert (check.level, check.advice) == ("warning", "set both, or neither")


async def test_an_endpoint_with_a_good_secret_is_ok_and_its_token_not_shown() -> None:
    async with listening_endpoint() as place:
        checks = await check_billing(posting_to(f"http://{place}/usage?token=t0ken", "env:GOOD"))

    assert checks == [Check("billing", "ok", f"{place} answers")]


@pytest.mark.parametrize(
    ("references", "found"),
    [
        ((), "the signing secret is missing"),
        (("env:ABSENT",), "the secret env:ABSENT is not set; export ABSENT"),
        (("env:GOOD", "env:EMPTY"), "the secret env:EMPTY is not set; export EMPTY"),
        (("env:GOOD", "env:SHORT"), "env:SHORT: the secret must be whsec_ and 24 to 64 bytes in base64"),
        (("file:/no/such/file",), "the secret file:/no/such/file cannot be read: "),
    ],
    ids=["none", "absent", "empty", "short", "no-file"],
)
async def test_a_secret_that_cannot_sign_is_a_problem(references: tuple[str, ...], found: str) -> None:
    async with listening_endpoint() as place:
        [problem, _] = await check_billing(posting_to(f"http://{place}", *references))

    assert problem.level == "problem"
    assert problem.found.startswith(found)
    assert problem.advice
    assert "c2hvcnQ" not in str(problem)


async def test_an_endpoint_that_is_not_there_is_a_problem() -> None:
    async with listening_endpoint() as place:
        pass

    [check] = await check_billing(posting_to(f"http://{place}/usage?token=t0ken", "env:GOOD"))

    assert check.level == "problem"
    assert check.found.startswith(f"{place} does not answer: ")
    assert "t0ken" not in str(check)
