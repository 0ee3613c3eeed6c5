"""Checks of the broker: Redis, also over TLS and behind Sentinels, and RabbitMQ."""

import asyncio
import re
import ssl
from contextlib import ExitStack
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError, ResponseError
from redis.retry import Retry
from redis.sentinel import MasterNotFoundError, Sentinel

from ops.doctor.check_result import Check, error_line
from workers.broker.broker_url import Broker, parse_broker_url
from workers.broker.options import sentinel_connection
from workers.settings import SettingsError

_TIMEOUT_S = 1.8
# redis-py's message prints each silent Sentinel as the repr of its client.
_SENTINEL_ADDRESS = re.compile(r"\bhost=([^,]+),port=(\d+)")
_SENTINEL_TIMEOUT_S = 0.5  # per Sentinel, so that all fit into the doctor's timeout
_REDIS_ADVICE = "start Redis there, or correct UNATTENDED_REDIS_URL (unset: the embedded Redis)"

NO_TLS_FAULT = "the port does not use TLS"
NO_TLS_ADVICE = "begin the URL with redis:// or amqp://, or use the TLS port"
_FAULTS = {
    "Hostname mismatch": "its certificate is for another host name",
    "IP address mismatch": "its certificate is for another address",
    "unable to get local issuer": "its certificate is signed by an authority that is not trusted here",
    "self-signed certificate": "its certificate is signed by an authority that is not trusted here",
    "certificate has expired": "its certificate has expired",
    "certificate required": "it requires a client certificate",
    "handshake failure": "it requires a client certificate, or another version of TLS",
    "EOF occurred in violation": "it ended the handshake; it may require a client certificate",
    "unknown ca": "it does not trust our client certificate",
    "wrong version number": NO_TLS_FAULT,
    "key values mismatch": "our client certificate and its key do not match",
}
_ADVICE = {
    "its certificate is signed": "set the authority's file with ssl_ca_certs=/path/ca.pem in the URL",
    "its certificate is for": "use the host name in the certificate, or ssl_check_hostname=false in the URL",
    "it requires": "set ssl_certfile and ssl_keyfile in the URL",
    "it ended the handshake": "set ssl_certfile and ssl_keyfile in the URL",
    NO_TLS_FAULT: NO_TLS_ADVICE,
}

_RABBITMQ_CHECK = "rabbitmq"
_RABBITMQ_ADVICE = "start RabbitMQ there, or correct UNATTENDED_REDIS_URL"


async def check_redis(url: str) -> list[Check]:
    try:
        broker = parse_broker_url(url)
    except SettingsError as error:  # its text contains no password
        return [Check("redis", "problem", str(error), "correct UNATTENDED_REDIS_URL")]
    if broker.kind == "amqp":
        return await check_rabbitmq(broker)
    # The blocking client in a thread, as the asyncio one leaves sockets open after a failed handshake.
    return await asyncio.to_thread(_check_redis_server, broker)


def _check_redis_server(broker: Broker) -> list[Check]:
    try:
        with ExitStack() as exit_stack:
            client = _open_client(broker, exit_stack)
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
    no_retry = {"retry": Retry(NoBackoff(), 0)}
    connection: dict[str, Any] = {
        "username": broker.user or None,
        "password": broker.password or None,
        "db": int(broker.path),
        "socket_timeout": _TIMEOUT_S,
        "socket_connect_timeout": _TIMEOUT_S,
        **no_retry,
        **({"ssl": True, **broker.tls.for_redis()} if broker.tls else {}),
    }
    if broker.kind == "redis":
        [address] = broker.hosts
        client: Redis = Redis(host=address.host, port=address.port, **connection)
        exit_stack.callback(client.close)
        return client
    sentinel_options = {
        **sentinel_connection(broker),
        "socket_timeout": _SENTINEL_TIMEOUT_S,
        "socket_connect_timeout": _SENTINEL_TIMEOUT_S,
    }
    hosts = [(address.host, address.port) for address in broker.hosts]
    sentinels: Any = Sentinel(hosts, sentinel_kwargs=sentinel_options | no_retry, **connection)  # type: ignore[no-untyped-call]  # redis-py leaves it untyped
    client = sentinels.master_for(broker.options["master_name"])
    for opened in (*sentinels.sentinels, client):
        exit_stack.callback(opened.close)
    return client


def _connection_problem(broker: Broker, error: Exception) -> Check:
    found = tls_fault(error) or error_line(error)
    if broker.tls and "Timeout" in found:  # a Redis without TLS waits for a line end in the handshake
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
    except ResponseError:  # managed services hide their configuration
        return Check(name, "warning", "append-only file off, snapshots unknown", "ask your provider for persistence")
    if snapshots:
        return Check(name, "ok", f"snapshots ({snapshots})")
    return Check(
        name,
        "warning",
        "off: after a restart of Redis, queued runs wait until their wake-ups are sent again",
        "CONFIG SET appendonly yes; without it runs start late, but none is lost",
    )


def _read_config(client: Redis, name: str) -> dict[str, Any]:
    values: Any = client.config_get(name)
    return dict(values)


def tls_fault(error: BaseException) -> str:
    """Return an empty text for an error that is not about TLS."""
    text = error_line(error).lower().replace("_", " ")
    return next((fault for sign, fault in _FAULTS.items() if sign.lower() in text), "")


def tls_advice(error: BaseException) -> str:
    fault = tls_fault(error)
    advice = next((advice for beginning, advice in _ADVICE.items() if fault.startswith(beginning)), "")
    return advice or ("correct the certificates" if fault or isinstance(error, ssl.SSLError) else "")


async def check_rabbitmq(broker: Broker) -> list[Check]:
    return await asyncio.to_thread(_check_rabbitmq_server, broker)


def _check_rabbitmq_server(broker: Broker) -> list[Check]:
    from workers.broker.rabbitmq_probe import NoQuorumQueueError, NotAllowedError, probe_rabbitmq

    try:
        version = probe_rabbitmq(broker)
    except NotAllowedError as error:
        return [
            Check(
                _RABBITMQ_CHECK, "problem", f"{broker.redacted_url}: {error_line(error)}", _access_advice(broker, error)
            )
        ]
    except NoQuorumQueueError as error:
        advice = "use RabbitMQ 3.8 or newer, with quorum queues enabled"
        return [Check("rabbitmq quorum queues", "problem", f"{broker.redacted_url}: {error_line(error)}", advice)]
    except OSError as error:
        found = f"{broker.redacted_url}: {tls_fault(error) or error_line(error)}"
        return [Check(_RABBITMQ_CHECK, "problem", found, tls_advice(error) or _RABBITMQ_ADVICE)]
    return [
        Check(_RABBITMQ_CHECK, "ok", f"RabbitMQ {version} at {broker.redacted_url}"),
        Check("rabbitmq quorum queues", "ok", "declared and deleted a test queue"),
    ]


def _access_advice(broker: Broker, error: Exception) -> str:
    if "Login was refused" in str(error):
        return "correct user and password in UNATTENDED_REDIS_URL"
    return f"grant the user of UNATTENDED_REDIS_URL configure, write and read on the virtual host {broker.path}"
