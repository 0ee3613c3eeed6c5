"""The broker as wake-ups need it: Redis, also over TLS and behind Sentinels. RabbitMQ has a module of its own."""

import asyncio
import re
from contextlib import ExitStack
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

from ops.doctor.checks import Check, error_line
from ops.doctor.rabbitmq import check_rabbitmq
from ops.doctor.tls import NO_TLS_FAULT, NO_TLS_ADVICE, tls_advice, tls_fault
from workers.broker.options import sentinel_connection
from workers.broker.url import Broker, parse_broker_url
from workers.settings import SettingsError

_TIMEOUT_S = 1.8
# redis-py shows each Sentinel that did not answer with all that a client object consists of.
_SENTINEL_ADDRESS = re.compile(r"\bhost=([^,]+),port=(\d+)")
_SENTINEL_TIMEOUT_S = 0.5  # of each Sentinel: all of it must fit into the examination
_REDIS_ADVICE = "start Redis there, or correct UNATTENDED_REDIS_URL (unset: the embedded Redis)"


async def check_redis(url: str) -> list[Check]:
    try:
        broker = parse_broker_url(url)
    except SettingsError as error:  # it names the setting, and no password
        return [Check("redis", "problem", str(error), "correct UNATTENDED_REDIS_URL")]
    if broker.kind == "amqp":
        return await check_rabbitmq(broker)
    # The blocking client, in a thread: the asyncio one leaves sockets open after a handshake that failed.
    return await asyncio.to_thread(_check_redis_server, broker)


def _check_redis_server(broker: Broker) -> list[Check]:
    try:
        with ExitStack() as opened:
            client = _open_client(broker, opened)
            info: dict[str, Any] = client.info()
            return [_check_version(broker, info), _check_eviction(info), _check_persistence(client, info)]
    except MasterNotFoundError as error:
        silent = [f"{host}:{port}" for host, port in _SENTINEL_ADDRESS.findall(str(error))]
        found = f"{broker.redacted_url}: no Sentinel names a master {broker.options['master_name']}"
        found += f"; no answer from {', '.join(silent)}" if silent else ""
        return [Check("redis", "problem", found, "start the Sentinels there, or correct master_name in the URL")]
    except (RedisError, OSError) as error:
        return [_connection_problem(broker, error)]


def _open_client(broker: Broker, exit_stack: ExitStack) -> Redis:
    once = {"retry": Retry(NoBackoff(), 0)}
    connection: dict[str, Any] = {
        "username": broker.user or None,
        "password": broker.password or None,
        "db": int(broker.path),
        "socket_timeout": _TIMEOUT_S,
        "socket_connect_timeout": _TIMEOUT_S,
        **once,
        **({"ssl": True, **broker.tls.for_redis()} if broker.tls else {}),
    }
    if broker.kind == "redis":
        [address] = broker.hosts
        client: Redis = Redis(host=address.host, port=address.port, **connection)
        exit_stack.callback(client.close)
        return client
    asking = {**sentinel_connection(broker), "socket_timeout": _SENTINEL_TIMEOUT_S, "socket_connect_timeout": _SENTINEL_TIMEOUT_S}
    hosts = [(address.host, address.port) for address in broker.hosts]
    sentinels: Any = Sentinel(hosts, sentinel_kwargs=asking | once, **connection)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
    client = sentinels.master_for(broker.options["master_name"])
    for each in (*sentinels.sentinels, client):
        exit_stack.callback(each.close)
    return client


def _connection_problem(broker: Broker, error: Exception) -> Check:
    found = tls_fault(error) or error_line(error)
    if broker.tls and "Timeout" in found:  # a Redis without TLS waits for the end of a line
        return Check("redis", "problem", f"{broker.redacted_url}: {found}; maybe {NO_TLS_FAULT}", NO_TLS_ADVICE)
    advice = tls_advice(error) or _login_advice(error) or _REDIS_ADVICE
    return Check("redis", "problem", f"{broker.redacted_url}: {found}", advice)


def _login_advice(error: BaseException) -> str:
    return "correct user and password in UNATTENDED_REDIS_URL" if isinstance(error, AuthenticationError) else ""


def _check_version(broker: Broker, info: dict[str, Any]) -> Check:
    valkey = info.get("valkey_version")
    product = f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', 'of unknown version')}"
    return Check("redis", "ok", f"{product} at {broker.redacted_url}")


def _check_eviction(info: dict[str, Any]) -> Check:
    policy = info.get("maxmemory_policy", "unknown")
    if policy == "noeviction":
        return Check("redis maxmemory-policy", "ok", "noeviction")
    return Check(
        "redis maxmemory-policy",
        "problem",
        f"{policy}: Redis may drop queued wake-ups when its memory is full",
        "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
    )


def _check_persistence(client: Redis, info: dict[str, Any]) -> Check:
    name = "redis persistence"
    if info.get("aof_enabled"):
        return Check(name, "ok", "append-only file")
    try:
        snapshots = _read_config(client, "save").get("save")
    except ResponseError:  # managed services do not show their configuration
        return Check(name, "warning", "append-only file off, snapshots unknown", "ask your provider for persistence")
    if snapshots:
        return Check(name, "ok", f"snapshots ({snapshots})")
    return Check(
        name,
        "warning",
        "off: after a restart of Redis queued runs wait until they are published again",
        "CONFIG SET appendonly yes; no run is lost without it, runs are in MongoDB",
    )


def _read_config(client: Redis, name: str) -> dict[str, Any]:
    said: Any = client.config_get(name)
    return dict(said)
