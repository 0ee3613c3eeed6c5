"""Redis as the broker needs it."""

from typing import Any

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError

from ops.doctor.checks import Check, one_line
from ops.doctor.urls import redacted, unreadable

_TIMEOUT_S = 2.0
_UNREACHABLE = "start Redis there, or correct UNATTENDED_REDIS_URL (unset: the embedded Redis)"


async def check_redis(url: str) -> list[Check]:
    if url.startswith("sentinel"):
        return [Check("redis", "warning", f"{redacted(url)}: Sentinel addresses are not examined")]
    try:
        client = Redis.from_url(
            url, socket_timeout=_TIMEOUT_S, socket_connect_timeout=_TIMEOUT_S, retry=Retry(NoBackoff(), 0)
        )
    except ValueError as error:
        return [Check("redis", "problem", unreadable(url, error), "correct UNATTENDED_REDIS_URL")]
    try:
        async with client:
            info = await client.info()
            return [_version(url, info), _eviction(info), await _persistence(client, info)]
    except (RedisError, OSError) as error:
        return [Check("redis", "problem", f"{redacted(url)}: {one_line(error)}", _UNREACHABLE)]


def _version(url: str, info: dict[str, Any]) -> Check:
    valkey = info.get("valkey_version")
    product = f"Valkey {valkey}" if valkey else f"Redis {info.get('redis_version', 'of unknown version')}"
    return Check("redis", "ok", f"{product} at {redacted(url)}")


def _eviction(info: dict[str, Any]) -> Check:
    policy = info.get("maxmemory_policy", "unknown")
    if policy == "noeviction":
        return Check("redis maxmemory-policy", "ok", "noeviction")
    return Check(
        "redis maxmemory-policy",
        "problem",
        f"{policy}: Redis may drop queued wake-ups when its memory is full",
        "CONFIG SET maxmemory-policy noeviction, and the same in redis.conf",
    )


async def _persistence(client: Redis, info: dict[str, Any]) -> Check:
    name = "redis persistence"
    if info.get("aof_enabled"):
        return Check(name, "ok", "append-only file")
    try:
        snapshots = (await client.config_get("save")).get("save")
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
