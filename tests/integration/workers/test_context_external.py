"""External values over real HTTP: requests, results, caching and secrecy."""

import asyncio
import gzip
import json
import logging
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

import pytest

from tests.integration.stage import Stage, relay
from tests.integration.workers.external_server import (
    ExternalAnswer,
    ExternalRequest,
    ExternalServer,
    Plan,
    external_server,
)
from workflows.context.external import response_body
from workflows.context.external.external_reader import ExternalReader
from workflows.context.reads.missing_values import NoValueError
from workflows.package.normal_form.variable_sources import Authorization, ExternalSource

pytestmark = pytest.mark.integration

SECRET = "s3cret/canary+1"
FACTS = {"app_id": "acme", "user_id": "ada"}


class FakeClock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@asynccontextmanager
async def reading(
    server: ExternalServer, *, secret: str = SECRET, clock: Callable[[], float] = time.monotonic
) -> AsyncIterator[ExternalReader]:
    def resolve(reference: str) -> str:
        if reference != "env:KEY":
            raise ValueError(f"the secret {reference} is not set")
        return secret

    external_reader = ExternalReader(
        allowed_hosts=frozenset({server.host}), resolve_secret=resolve, clock=clock, initial_backoff_s=0.001
    )
    try:
        yield external_reader
    finally:
        await external_reader.close()


async def read(plan: Plan | ExternalAnswer, path: str = "/", facts: Mapping[str, Any] = FACTS, **source: Any) -> Any:
    """Reads one value with its own reader."""
    with external_server(plan if callable(plan) else lambda *_: plan) as server:
        async with reading(server) as external_reader:
            return await external_reader.read(at(server, path, **source), app_id="acme", facts=facts)


def at(server: ExternalServer, path: str = "/", **source: Any) -> ExternalSource:
    return ExternalSource(f"http://{server.host}{path}", **source)


def answer(value: Any, **options: Any) -> ExternalAnswer:
    return ExternalAnswer(json.dumps(value).encode(), **options)


def text(body: bytes, kind: str = "text/plain") -> ExternalAnswer:
    return ExternalAnswer(body, headers={"content-type": kind})


@pytest.mark.parametrize(
    ("answered", "value"),
    [
        (answer({"a": [1, None]}), {"a": [1, None]}),
        (ExternalAnswer(b"1", headers={"content-type": "application/problem+json; charset=utf-8"}), 1),
        (text("grün".encode(), "text/plain; charset=utf-8"), "grün"),
        (text("grün".encode("latin-1"), "text/plain; charset=ISO-8859-1"), "grün"),
        (text(b"\xff", "text/plain"), "\ufffd"),
        (ExternalAnswer(b"plain", headers={}), "plain"),
        (
            ExternalAnswer(
                gzip.compress(b"[1]"), headers={"content-type": "application/json", "content-encoding": "GZIP"}
            ),
            [1],
        ),
        (answer([1], length=False), [1]),
    ],
)
async def test_an_answer_is_json_where_so_declared_and_text_elsewhere(answered: ExternalAnswer, value: Any) -> None:
    assert await read(answered) == value


@pytest.mark.parametrize(
    ("answered", "reason"),
    [
        (ExternalAnswer(b"{"), "its answer says it is JSON, and is not"),
        (ExternalAnswer(b"[NaN]"), "its answer says it is JSON, and is not"),
        (ExternalAnswer(b"1e999"), "its answer says it is JSON, and is not"),
        (ExternalAnswer(b"[" * 100_000), "its answer says it is JSON, and is not"),
        (ExternalAnswer(b'"\\ud800"'), "its answer holds half of a character (a lone surrogate)"),
        (ExternalAnswer(b"null"), "its answer is empty"),
        (answer({}, status=204), "it answered 204"),
        (answer({}, status=201), "it answered 201"),
        (answer({}, status=404), "it answered 404"),
        (
            ExternalAnswer(b"x", headers={"content-encoding": "br"}),
            "its answer is encoded as 'br', which is not supported",
        ),
        (
            ExternalAnswer(b"not gzip", headers={"content-encoding": "gzip"}),
            "its answer does not have the declared encoding",
        ),
        (
            ExternalAnswer(gzip.compress(b"x" * 99)[:-9], headers={"content-encoding": "gzip"}),
            "its answer ends too early",
        ),
    ],
)
async def test_an_answer_without_a_value_is_reported(answered: ExternalAnswer, reason: str) -> None:
    with pytest.raises(NoValueError) as caught:
        await read(answered, attempts=1)

    assert str(caught.value) == reason


async def test_one_part_of_an_answer_is_selected() -> None:
    rates = answer({"rates": [{"to": "eur", "rate": 1.25}]})

    assert await read(rates, select="rates[?to == 'eur'].rate | [0]") == 1.25
    for select, reason in (("rates[9]", "finds nothing"), ("length(`1`)", "cannot be applied"), ("a ||", "cannot")):
        with pytest.raises(NoValueError, match=reason):
            await read(rates, select=select)


async def test_only_listed_hosts_are_asked() -> None:
    with external_server(lambda *_: answer(1)) as server, external_server(lambda *_: answer(2)) as other:
        async with reading(server) as external_reader:
            assert await external_reader.read(at(server), app_id="acme", facts=FACTS) == 1
            with pytest.raises(NoValueError, match=f"{other.host} is not an allowed host"):
                await external_reader.read(at(other), app_id="acme", facts=FACTS)

        assert other.requests == []


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirects_are_not_followed_not_even_to_a_listed_host(status: int) -> None:
    with external_server(lambda *_: ExternalAnswer(status=status, headers={"location": "/b"})) as server:
        async with reading(server) as external_reader:
            with pytest.raises(NoValueError, match=f"it answered {status}; redirects are not followed"):
                await external_reader.read(at(server, "/a"), app_id="acme", facts=FACTS)

        assert [each.path for each in server.requests] == ["/a"]


async def test_an_answer_is_read_no_further_than_its_bound() -> None:
    endless = ExternalAnswer(b"x" * 64 * 1024 * 1024, headers={"content-type": "text/plain"}, length=False)
    with external_server(lambda *_: endless) as server:
        async with reading(server) as external_reader:
            with pytest.raises(NoValueError, match="its answer is larger than 1024 KB"):
                await external_reader.read(at(server, timeout_s=10), app_id="acme", facts=FACTS)

        assert server.sent_bytes < 16 * 1024 * 1024


async def test_a_value_has_the_bound_of_all_values_after_it_was_selected() -> None:
    large = answer({"rest": "x" * 500_000, "small": 1})

    assert await read(large, select="small") == 1
    with pytest.raises(NoValueError, match="larger than 256 KB; select a part of it"):
        await read(large)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
async def test_a_compressed_bomb_is_not_unpacked(encoding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unpacked: list[int] = []
    real = zlib.decompressobj

    def watched(*arguments: Any) -> Any:
        unpacker = real(*arguments)

        class Watched:
            eof = False

            def decompress(self, data: bytes, most: int) -> bytes:
                part: bytes = unpacker.decompress(data, most)
                unpacked.append(len(part))
                return part

        return Watched()

    bomb = gzip.compress(b"0" * 200 * 1024 * 1024, 1)
    monkeypatch.setattr(zlib, "decompressobj", watched)

    with pytest.raises(NoValueError, match="its answer is larger than 1024 KB"):
        await read(ExternalAnswer(bomb, headers={"content-encoding": encoding}), timeout_s=10)

    assert 0 < sum(unpacked) <= response_body.MAX_BODY_BYTES + 1


async def test_what_follows_a_compressed_answer_is_not_kept() -> None:
    response_body = gzip.compress(b"[1]") + b"x" * 32 * 1024 * 1024
    with external_server(
        lambda *_: ExternalAnswer(response_body, headers={**external_json(), "content-encoding": "gzip"})
    ) as server:
        async with reading(server) as external_reader:
            assert await external_reader.read(at(server, timeout_s=10), app_id="acme", facts=FACTS) == [1]

        assert server.sent_bytes < 16 * 1024 * 1024


def external_json() -> dict[str, str]:
    return {"content-type": "application/json"}


async def test_one_deadline_is_over_all_attempts() -> None:
    began = time.monotonic()

    with pytest.raises(NoValueError, match=r"^no answer within 0.15 s; before that it answered 503$") as caught:
        await read(
            lambda _, number: answer({}, status=503) if number == 0 else answer({}, delay_s=0.5),
            timeout_s=0.15,
            attempts=5,
        )

    assert caught.value.is_transient
    assert time.monotonic() - began < 5


@pytest.mark.parametrize("status", [429, 500, 502, 503])
async def test_what_may_pass_is_tried_again(status: int) -> None:
    assert await read(lambda _, number: answer(number, status=status if number < 2 else 200), attempts=3) == 2
    with pytest.raises(NoValueError, match=f"^it answered {status}$") as caught:
        await read(lambda _, number: answer(number, status=status if number < 2 else 200), attempts=2)
    assert caught.value.is_transient


async def test_what_stays_is_not_tried_again() -> None:
    with external_server(lambda *_: answer({}, status=404)) as server:
        async with reading(server) as external_reader:
            with pytest.raises(NoValueError, match="it answered 404") as caught:
                await external_reader.read(at(server, attempts=5), app_id="acme", facts=FACTS)

        assert (len(server.requests), caught.value.is_transient) == (1, False)


async def test_an_unreachable_service_is_transient() -> None:
    with external_server(lambda *_: answer(1)) as server:
        pass
    async with reading(server) as external_reader:
        with pytest.raises(NoValueError, match=r"^the call failed \(ConnectError\)$") as caught:
            await external_reader.read(at(server), app_id="acme", facts=FACTS)

    assert caught.value.is_transient


@pytest.mark.parametrize(
    ("authorization", "header", "sent"),
    [
        (Authorization("bearer", "env:KEY"), "authorization", f"Bearer {SECRET}"),
        (Authorization("basic", "env:KEY"), "authorization", "Basic czNjcmV0L2NhbmFyeSsx"),
        (Authorization("header", "env:KEY", "X-Api-Key"), "x-api-key", SECRET),
    ],
)
async def test_a_secret_is_sent_where_it_is_asked_for(authorization: Authorization, header: str, sent: str) -> None:
    with external_server(lambda *_: answer(1)) as server:
        async with reading(server) as external_reader:
            headers = {header.upper(): "not this", "accept": "application/json"}
            await external_reader.read(
                at(server, authorization=authorization, headers=headers), app_id="acme", facts=FACTS
            )

    [asked] = server.requests
    assert (asked.headers[header], asked.headers["accept"]) == (sent, "application/json")


@pytest.mark.parametrize(
    "body",
    [
        json.dumps(SECRET).encode(),
        json.dumps({"echo": [f"you sent {SECRET}!"]}).encode(),
        json.dumps({SECRET: 1}).encode(),
        ('{"a": "' + "".join(f"\\u{ord(each):04x}" for each in SECRET) + '"}').encode(),
        b'{"a": {"link": "/?key=s3cret%2Fcanary%2B1"}}',
    ],
)
async def test_an_answer_that_gives_the_secret_back_is_refused(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    bearer = Authorization("bearer", "env:KEY")

    with pytest.raises(NoValueError) as caught:
        await read(ExternalAnswer(body), authorization=bearer, select="other || `1`")

    assert str(caught.value) == "its answer holds the secret of the request"
    assert SECRET not in caplog.text


@pytest.mark.parametrize("echo", ["ada:pa55word", "pa55word", "YWRhOnBhNTV3b3Jk"])
async def test_a_password_is_not_given_back_in_any_form(echo: str) -> None:
    with external_server(lambda *_: answer(f"<{echo}>")) as server:
        async with reading(server, secret="ada:pa55word") as external_reader:
            source = at(server, authorization=Authorization("basic", "env:KEY"))
            with pytest.raises(NoValueError, match="its answer holds the secret"):
                await external_reader.read(source, app_id="acme", facts=FACTS)


async def test_a_secret_that_cannot_be_had_is_named_by_its_reference() -> None:
    with pytest.raises(NoValueError, match="the secret env:OTHER is not set"):
        await read(answer(1), authorization=Authorization("bearer", "env:OTHER"))


@pytest.mark.parametrize("secret", ["canary\r\nX-Evil: 1", "canary\x00", "canary é", "canary\ud800", "  "])
async def test_a_secret_that_no_header_can_hold_is_not_shown(secret: str) -> None:
    with external_server(lambda *_: answer(1)) as server:
        async with reading(server, secret=secret) as external_reader:
            source = at(server, authorization=Authorization("bearer", "env:KEY"))
            with pytest.raises(NoValueError) as caught:
                await external_reader.read(source, app_id="acme", facts=FACTS)

        assert server.requests == []
    assert "canary" not in str(caught.value)


@pytest.mark.parametrize(
    "headers", [{"Host": "evil.com"}, {"Transfer-Encoding": "chunked"}, {"A": "b\r\nC: d"}, {"A\r\nB": "c"}, {"a": "é"}]
)
async def test_headers_cannot_change_the_host_or_what_is_sent(headers: dict[str, str]) -> None:
    with external_server(lambda *_: answer(1)) as server:
        async with reading(server) as external_reader:
            with pytest.raises(NoValueError, match="cannot be sent"):
                await external_reader.read(at(server, headers=headers), app_id="acme", facts=FACTS)

        assert server.requests == []


@pytest.mark.parametrize(
    "value", ["@evil.com", "?x=1", "#x", "&admin=1", "{x.__class__}", "${app_id}", "%2e%2e", "org/repo", "a b"]
)
async def test_a_payload_arrives_as_data(value: str) -> None:
    with external_server(lambda *_: answer(1)) as server:
        async with reading(server) as external_reader:
            await external_reader.read(at(server, "/u/${x}?q=${x}&z=1"), app_id="acme", facts={**FACTS, "x": value})

    [asked] = server.requests
    path, _, query = asked.path.partition("?")
    encoded = path.removeprefix("/u/")
    assert query == f"q={encoded}&z=1"
    assert not set(encoded) & set("/?#&@{}$ ")
    assert asked.headers["host"] == server.host


@pytest.mark.parametrize("value", ["../admin", "..", "a\r\nX-Evil: 1", "a\\..\\b", {"$ne": None}, None])
async def test_a_payload_that_would_lead_elsewhere_is_never_sent(value: Any) -> None:
    with external_server(lambda *_: answer(1)) as server:
        async with reading(server) as external_reader:
            with pytest.raises(NoValueError, match=r"^x "):
                await external_reader.read(at(server, "/u/${x}"), app_id="acme", facts={**FACTS, "x": value})

        assert server.requests == []


async def test_a_value_is_kept_for_its_time_and_given_as_a_copy() -> None:
    clock = FakeClock()
    with external_server(lambda _, number: answer([number])) as server:
        async with reading(server, clock=clock) as external_reader:
            source = at(server, cache_ttl_s=10)
            first = await external_reader.read(source, app_id="acme", facts=FACTS)
            first.append("of one run")
            clock.now = 9.9
            second = await external_reader.read(source, app_id="acme", facts=FACTS)
            clock.now = 10.0
            third = await external_reader.read(source, app_id="acme", facts=FACTS)

    assert (second, third) == ([0], [1])


async def test_without_a_time_nothing_is_kept() -> None:
    with external_server(lambda _, number: answer(number)) as server:
        async with reading(server) as external_reader:
            assert [await external_reader.read(at(server), app_id="acme", facts=FACTS) for _ in range(2)] == [0, 1]


async def test_one_app_is_never_given_what_another_fetched() -> None:
    """Also if the address does not differ between apps."""
    with external_server(lambda _, number: answer(number)) as server:
        async with reading(server) as external_reader:
            source = at(server, cache_ttl_s=100)
            values = [
                await external_reader.read(source, app_id=app, facts={"app_id": app}) for app in ("a", "b", "a", "b")
            ]

    assert values == [0, 1, 0, 1]


async def test_what_is_asked_in_another_way_is_another_value() -> None:
    bearer = Authorization("bearer", "env:KEY")
    with external_server(lambda _, number: answer({"n": number})) as server:
        async with reading(server) as external_reader:
            one = at(server, "/${user_id}", cache_ttl_s=100)
            others = [
                one,
                replace(one, authorization=bearer),
                replace(one, select="n"),
                replace(one, headers={"accept-language": "de"}),
            ]
            for source in [*others, *others]:
                await external_reader.read(source, app_id="acme", facts=FACTS)
            await external_reader.read(one, app_id="acme", facts={**FACTS, "user_id": "grace"})

    assert len(server.requests) == 5


async def test_a_stampede_is_one_call() -> None:
    with external_server(lambda _, number: answer(number, delay_s=0.1)) as server:
        async with reading(server) as external_reader:
            source = at(server, cache_ttl_s=100)
            values = await asyncio.gather(
                *(external_reader.read(source, app_id="acme", facts=FACTS) for _ in range(100))
            )

    assert (set(values), len(server.requests)) == ({0}, 1)


async def test_a_secret_that_is_given_back_is_not_kept_either() -> None:
    with external_server(lambda _, number: answer(SECRET if number == 0 else "fine")) as server:
        async with reading(server) as external_reader:
            source = at(server, cache_ttl_s=100, authorization=Authorization("bearer", "env:KEY"))
            with pytest.raises(NoValueError, match="secret"):
                await external_reader.read(source, app_id="acme", facts=FACTS)

            assert await external_reader.read(source, app_id="acme", facts=FACTS) == "fine"


async def test_cookies_of_one_call_are_not_sent_with_the_next() -> None:
    with external_server(lambda *_: answer(1, headers={**external_json(), "set-cookie": "session=acme"})) as server:
        async with reading(server) as external_reader:
            for app in ("acme", "globex"):
                await external_reader.read(at(server), app_id=app, facts=FACTS)

    assert len(server.requests) == 2
    assert not [each for each in server.requests if "cookie" in each.headers]


async def test_proxies_of_the_process_environment_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")

    assert await read(answer(1)) == 1


async def test_ten_slow_reads_take_as_long_as_one() -> None:
    all_asked = threading.Barrier(10)  # answers come after all requests: sequential requests would never end

    def plan(_: ExternalRequest, number: int) -> ExternalAnswer:
        all_asked.wait(timeout=20)
        return answer(number)

    with external_server(plan) as server:
        async with reading(server) as external_reader:
            sources = [at(server, f"/{number}", timeout_s=15) for number in range(10)]
            values = await asyncio.gather(*(external_reader.read(each, app_id="acme", facts=FACTS) for each in sources))

    assert sorted(values) == list(range(10))


@pytest.mark.design("D4-46")
async def test_a_run_reads_external_values_of_allowed_hosts(stage: Stage) -> None:
    def plan(asked: ExternalRequest, _: int) -> ExternalAnswer:
        return answer(
            {"plan": "gold", "path": asked.path, "with_key": asked.headers.get("authorization") == "Bearer k3y"}
        )

    with external_server(plan) as server:
        package = relay("Reader", ["A"])
        url = f"http://{server.host}/apps/{{{{runtime.app_id}}}}"
        auth = {"type": "bearer", "secret": "env:PLAN_KEY"}
        package["context_variables"] = {
            "definitions": {
                "customer": {
                    "type": "object",
                    "source": {"type": "external", "url": url, "auth": auth, "required": True},
                },
                "elsewhere": {
                    "type": "string",
                    "source": {"type": "external", "url": "http://127.0.0.1:9/", "default": "none"},
                },
            }
        }
        stage.package("Reader", package)
        environ = {**stage.settings.environ, "PLAN_KEY": "k3y"}
        await stage.start_worker(external_hosts=frozenset({server.host}), environ=environ, environment="production")

        run = await stage.wait_for_end((await stage.accept("Reader", app_id="acme")).run_id)

    assert run["state"] == "succeeded", run["outcome"]
    assert run["context"]["customer"] == {"plan": "gold", "path": "/apps/acme", "with_key": True}
    assert run["context"]["elsewhere"] == "none"
    log = stage.log()
    assert "context_value_missing" in log
    assert "UNATTENDED_EXTERNAL_HOSTS" in log
    assert "context_loaded" in log
    assert "gold" not in log
    assert "k3y" not in log


@pytest.mark.design("D1-30", "D1-31", "D1-61")
async def test_a_verbose_log_shows_the_loaded_context_in_previews(stage: Stage) -> None:
    package = relay("Verbose", ["A"])
    package["context_variables"] = {
        "definitions": {
            "note": {"type": "string", "source": {"type": "static", "value": "shown to whoever asks"}},
            "api_key": {"type": "string", "source": {"type": "static", "value": "canary"}},
            "stage": {
                "type": "string",
                "source": {
                    "type": "state",
                    "default": "new",
                    "transitions": [{"to": "seen", "trigger": {"type": "agent_turn_count", "agent": "A", "count": 1}}],
                },
            },
        }
    }
    stage.package("Verbose", package)
    await stage.start_worker(verbose_debug=True)

    await stage.wait_for_end((await stage.accept("Verbose")).run_id)

    assert "shown to whoever asks" in stage.log()
    changed = [line for line in stage.log().splitlines() if "context_changed" in line]
    assert len(changed) == 1
    assert "new -> seen" in changed[0]
    assert "canary" not in stage.log()
