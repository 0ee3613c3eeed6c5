"""The whole endpoint without servers: any unverified call is refused, and never by a 500."""

import asyncio
import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.applications import Starlette
from starlette.routing import Route

from tests.trigger_packages import package_with_triggers
from tests.unit.triggers.property_settings import without_deadline
from tests.webhook_senders import BY_NAME, ENVIRON, SENDERS, TRIGGERS, WORKFLOW, Sender
from triggers.acceptance import Acceptance
from triggers.event_expressions import EvaluationLimits
from triggers.gateway.endpoint_response import count_requests
from triggers.gateway.gateway_metrics import GatewayMetrics
from triggers.gateway.http_problems import EXCEPTION_HANDLERS
from triggers.gateway.trigger_intake import TriggerIntake
from triggers.gateway.trigger_lookup import TriggerLookup
from triggers.register.trigger_record import TriggerRecord
from triggers.register.trigger_stats import TriggerStats
from triggers.register.trigger_store import TriggerStore
from triggers.webhook.webhook_endpoint import webhook_endpoint
from workers.settings import Settings
from workers.store.run import Accepted, RunRequest
from workers.store.run_store import RunStore
from workflows.package.trigger_specs.webhook_spec import WebhookSpec

SPECS = [WebhookSpec.model_validate(each) for each in TRIGGERS["triggers"]]
PACKAGES = package_with_triggers(*SPECS, name=WORKFLOW)


class EmptyTriggerStore(TriggerStore):
    def __init__(self) -> None: ...

    async def find(self, _id: str) -> TriggerRecord | None:
        return None


class MemoryRunStore(RunStore):
    """Runs in memory."""

    def __init__(self) -> None:
        self.run_ids: dict[str, str] = {}

    async def insert(self, request: RunRequest) -> Accepted:
        created = request.dedupe_key not in self.run_ids
        run_id = self.run_ids.setdefault(request.dedupe_key, f"run_{len(self.run_ids)}")
        return Accepted(run_id, created=created)


class SilentWakeups:
    def send(self, run_id: str) -> None: ...


RUNNERS: list[asyncio.Runner] = []
FEWER = without_deadline


@pytest.fixture(scope="module", autouse=True)
def runner() -> Iterator[None]:
    """One loop for all calls: a new one takes longer than a call."""
    with asyncio.Runner() as runner:
        RUNNERS.append(runner)
        yield


class Endpoint:
    def __init__(self, evaluation: EvaluationLimits | None = None, **settings: Any) -> None:
        store, metrics, self.shelf = EmptyTriggerStore(), GatewayMetrics(), MemoryRunStore()
        reception = TriggerIntake(
            Settings(environ=ENVIRON, **settings),
            TriggerLookup(lambda: PACKAGES, store),
            Acceptance(self.shelf, SilentWakeups()),
            metrics,
            TriggerStats(store),
            evaluation=evaluation or EvaluationLimits(),
        )
        hook = count_requests("webhook", metrics, webhook_endpoint(reception))
        routes = [Route("/hooks/{app}/{workflow}/{trigger}", hook, methods=["POST"])]
        self._app = Starlette(routes=routes, exception_handlers=EXCEPTION_HANDLERS)
        self._app.router.redirect_slashes = False

    def post(self, path: str, headers: Mapping[str, str], content: bytes) -> tuple[int, dict[str, Any]]:
        """Raises the errors of the app, which also answers them with 500."""
        return RUNNERS[-1].run(self._post(path, headers, content))

    async def _post(self, path: str, headers: Mapping[str, str], content: bytes) -> tuple[int, dict[str, Any]]:
        encoded = [(name.lower().encode("latin-1"), value.encode("latin-1")) for name, value in headers.items()]
        scope = {"type": "http", "method": "POST", "path": path, "query_string": b"", "headers": encoded}
        said: list[Any] = []

        async def receive() -> dict[str, Any]:
            return {"type": "http.request", "body": content, "more_body": False}

        async def send(message: Any) -> None:
            said.append(message)

        await self._app(scope, receive, send)
        return said[0]["status"], json.loads(b"".join(each.get("body", b"") for each in said[1:]))


@pytest.mark.design("D4-88")
@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)
def test_a_call_is_accepted_and_its_repetition_is_no_second_run(sender: Sender) -> None:
    endpoint, call = Endpoint(), sender.call()

    assert endpoint.post(sender.path, **call) == (202, {"run_id": "run_0", "status_url": "/v1/runs/run_0"})
    assert endpoint.post(sender.path, **call) == (200, {"run_id": "run_0", "status_url": "/v1/runs/run_0"})
    assert endpoint.post(sender.path, **sender.call(delivery="d-2"))[0] == 202


@pytest.mark.parametrize("sender", SENDERS, ids=lambda sender: sender.name)
def test_another_senders_proof_is_none(sender: Sender) -> None:
    endpoint = Endpoint()
    for other in SENDERS:
        taken = {"svix": {"svix", "standard"}}.get(sender.name, {sender.verify["scheme"]})
        if other.verify["scheme"] not in taken:
            assert endpoint.post(sender.path, **other.call())[0] == 401
    assert endpoint.shelf.run_ids == {}


@pytest.mark.parametrize("sender", [each for each in SENDERS if each.timed], ids=lambda sender: sender.name)
@pytest.mark.parametrize("age_s", [-310, 310])
def test_a_replay_outside_the_tolerance_is_refused(sender: Sender, age_s: int) -> None:
    endpoint = Endpoint()
    assert endpoint.post(sender.path, **sender.call(age_s=age_s))[0] == 401
    assert endpoint.shelf.run_ids == {}


ENDPOINT = Endpoint()  # for those that call it hundreds of times
# A signature of another body: the most that an attacker has who has seen one call.
SEEN = {sender.name: sender.call(delivery="seen")["headers"] for sender in SENDERS}
HEADERS = sorted({name for headers in SEEN.values() for name in headers} | {"content-length", "content-encoding"})
SCRAPS = sorted({value for headers in SEEN.values() for value in headers.values()})
LATIN = st.text(st.characters(max_codepoint=255, exclude_characters="\r\n\x00"))
VALUES = st.one_of(LATIN, st.sampled_from(SCRAPS), st.tuples(st.sampled_from(SCRAPS), LATIN).map("".join))
PROOFS = {
    sender.name: next(
        name for name in SEEN[sender.name] if "signature" in name or "token" in name or name == "authorization"
    )
    for sender in SENDERS
}


@without_deadline
@given(
    sender=st.sampled_from(SENDERS),
    kept=st.sets(st.sampled_from(HEADERS)),
    changed=st.dictionaries(st.sampled_from(HEADERS), VALUES, max_size=4),
    body=st.one_of(st.binary(max_size=200), st.recursive(st.none(), st.lists).map(json.dumps).map(str.encode)),
)
def test_whatever_an_unauthenticated_caller_sends_is_refused(
    sender: Sender, kept: set[str], changed: dict[str, str], body: bytes
) -> None:
    seen = {name: value for name, value in SEEN[sender.name].items() if name in kept} | changed
    if sender.verify["scheme"] in ("bearer", "basic"):  # an eavesdropper sees the secret itself
        seen.pop(PROOFS[sender.name], None)

    status, problem = ENDPOINT.post(sender.path, seen, body)

    assert status in (400, 401, 413, 415)
    assert problem["status"] == status


@FEWER
@given(path=st.lists(st.text("abcé/%.\x00 ", max_size=6), min_size=3, max_size=3).map("/".join))
def test_whatever_address_is_guessed_is_not_there(path: str) -> None:
    assert ENDPOINT.post(f"/hooks/{path}", **BY_NAME["github"].call())[0] == 404


LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
KEYS = st.sampled_from(["n", "id", "order", "data", "text", "payload", "$x", "a.b", ""])
BODIES = st.recursive(
    LEAVES, lambda each: st.lists(each, max_size=2) | st.dictionaries(KEYS, each, max_size=3), max_leaves=8
)


@FEWER
@given(body=BODIES)
def test_a_signed_body_of_any_shape_is_a_run_or_a_bad_request(body: Any) -> None:
    content = json.dumps(body).encode()
    sender = BY_NAME["github"]
    headers = {"content-type": "application/json", **sender.sign(content, "d-1", 0)}
    for name in ("github", "events", "picky"):
        assert ENDPOINT.post(f"/hooks/acme/{WORKFLOW}/{name}", headers, content)[0] in (200, 202, 400)


@pytest.mark.parametrize(("environment", "once", "twice"), [("development", 202, 202), ("production", 404, 202)])
def test_no_verification_is_refused_in_production_unless_confirmed(environment: str, once: int, twice: int) -> None:
    endpoint = Endpoint(environment=environment)
    call: dict[str, Any] = {"headers": {"content-type": "application/json"}, "content": b"{}"}

    assert endpoint.post(f"/hooks/acme/{WORKFLOW}/open", **call)[0] == once
    assert endpoint.post(f"/hooks/acme/{WORKFLOW}/wide-open", **call)[0] == twice


def github_call(content: bytes, *, delivery: str = "d-1", **changes: str) -> dict[str, Any]:
    headers = {"content-type": "application/json", **BY_NAME["github"].sign(content, delivery, 0), **changes}
    return {"headers": headers, "content": content}


def test_the_first_fault_is_the_one_that_is_reported() -> None:
    """Checks size, address, kind, signature, content, condition and rate in this order."""
    endpoint = Endpoint(body_limit_bytes=1_000)
    limited, nowhere = f"/hooks/acme/{WORKFLOW}/limited", f"/hooks/acme/{WORKFLOW}/nowhere"
    wrong = {"content-type": "image/png", "x-hub-signature-256": "sha256=00"}

    def status(path: str, content: bytes, **changes: str) -> int:
        return endpoint.post(path, **github_call(content, **changes))[0]

    assert status(nowhere, b"{", **wrong, **{"content-length": "1001"}) == 413
    assert status(nowhere, b"{", **wrong) == 404
    assert status(limited, b"{", **wrong) == 415
    assert status(limited, b"{", **{"x-hub-signature-256": "sha256=00"}) == 401
    assert [status(limited, b"{}", delivery=f"d-{number}") for number in range(3)] == [202] * 3
    assert status(limited, b"{") == 400
    assert endpoint.post(limited, **github_call(b'{"n": 0}')) == (200, {"skipped": True})
    assert status(limited, b"{}", delivery="d-9") == 429


def test_expressions_that_leave_the_event_loop_give_the_same_answers() -> None:
    events, picky = f"/hooks/acme/{WORKFLOW}/events", f"/hooks/acme/{WORKFLOW}/picky"
    bodies: list[Any] = [{"n": 1}, [], 7]
    calls = [(path, github_call(json.dumps(body).encode())) for path in (events, picky) for body in bodies]
    expected = [Endpoint().post(path, **call) for path, call in calls]

    off_loop = EvaluationLimits(loop_steps=-1)
    assert [Endpoint(off_loop).post(path, **call) for path, call in calls] == expected

    never_free = EvaluationLimits(loop_steps=-1, thread_wait_s=0.0)
    assert Endpoint(never_free).post(events, **github_call(b"{}"))[0] == 503
