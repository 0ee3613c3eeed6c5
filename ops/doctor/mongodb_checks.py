"""Checks of MongoDB: replica set, majority writes, oplog window."""

import asyncio
import re
import time
import uuid
from collections.abc import Mapping
from typing import Any

import pymongo
from pymongo import MongoClient
from pymongo.errors import ConfigurationError, OperationFailure, PyMongoError
from pymongo.write_concern import WriteConcern

from ops.doctor.check_result import Check, error_line

# For all checks together, below the timeout of the examination.
_TIMEOUT_S = 2.5
_SELECTION_TIMEOUT_MS = 1_800
_MIN_OPLOG_HOURS = 24
_UNREACHABLE_ADVICE = "start MongoDB there, or correct UNATTENDED_MONGODB_URL (unset: the embedded MongoDB)"

Client = MongoClient[dict[str, Any]]

_SECRET_OPTION = re.compile(r"(?i)([?&;](?:[^=&;]*(?:password|secret|token)|authMechanismProperties)=)[^&;]*")


async def check_mongodb(url: str, *, database: str, embedded: bool) -> list[Check]:
    # The blocking client in a thread: the asyncio one leaks a socket when it is closed while its monitor connects.
    return await asyncio.to_thread(_check_server, url, database, embedded)


def _check_server(url: str, database: str, embedded: bool) -> list[Check]:
    try:
        # The constructor parses the URL, and for mongodb+srv it queries DNS.
        with (
            pymongo.timeout(_TIMEOUT_S),
            Client(
                url, serverSelectionTimeoutMS=_SELECTION_TIMEOUT_MS, connectTimeoutMS=_SELECTION_TIMEOUT_MS
            ) as client,
        ):
            return _run_checks(client, url, database, embedded)
    except (ConfigurationError, ValueError) as error:  # includes InvalidURI
        return [Check("mongodb", "problem", describe_unreadable_url(url, error), "correct UNATTENDED_MONGODB_URL")]
    except (PyMongoError, OSError) as error:
        return [Check("mongodb", "problem", f"{redact_url(url)}: {_error_reason(error)}", _UNREACHABLE_ADVICE)]


def _error_reason(error: Exception) -> str:
    """Cut the driver's details of timeouts and topology."""
    return re.split(r", Timeout: | \(configured timeouts: |, full error: ", error_line(error))[0]


def _run_checks(client: Client, url: str, database: str, embedded: bool) -> list[Check]:
    hello = client.admin.command("hello")
    build = client.admin.command("buildInfo")
    checks = [Check("mongodb", "ok", f"MongoDB {build['version']} at {redact_url(url)}"), _check_replica_set(hello)]
    if checks[-1].level == "ok":
        checks.append(_check_majority_write(client, database))
    if hello.get("setName"):
        checks.append(_check_oplog_window(client, embedded))
    return checks


def _check_replica_set(hello: Mapping[str, Any]) -> Check:
    name = "mongodb replica set"
    if hello.get("setName"):
        return Check(name, "ok", f"{hello['setName']}, members: {len(hello.get('hosts', ()))}")
    if hello.get("msg") == "isdbgrid":
        return Check(name, "ok", "sharded cluster")
    return Check(
        name,
        "problem",
        "a single server: change streams and majority writes need a replica set",
        "start mongod with --replSet rs0 and run rs.initiate() once; a set of one member is enough",
    )


def _check_majority_write(client: Client, database: str) -> Check:
    name = "mongodb majority write"
    concern = WriteConcern(w="majority", j=True)
    started = time.monotonic()
    try:
        probes = client[database].get_collection("doctor_probes", write_concern=concern)
        probe = probes.insert_one({"_id": uuid.uuid4().hex}).inserted_id
        took_ms = (time.monotonic() - started) * 1000
        probes.delete_one({"_id": probe})
    except (PyMongoError, ValueError) as error:
        advice = f"the user of UNATTENDED_MONGODB_URL needs readWrite on {database}, and a majority must be up"
        return Check(name, "problem", _error_reason(error), advice)
    return Check(name, "ok", f"into {database} in {took_ms:.1f} ms, journaled")


def _check_oplog_window(client: Client, embedded: bool) -> Check:
    name = "mongodb oplog window"
    try:
        oplog = client.local["oplog.rs"]
        [first], [last] = [oplog.find({}, {"ts": 1}).sort("$natural", way).limit(1).to_list() for way in (1, -1)]
        stats = client.local.command("collStats", "oplog.rs")
    except (OperationFailure, ValueError):
        return Check(name, "warning", "cannot be read", "grant read on the database local")
    hours = (last["ts"].time - first["ts"].time) / 3600
    return check_oplog(hours, stats["size"] / stats["maxSize"], embedded=embedded)


def check_oplog(hours: float, fullness: float, *, embedded: bool) -> Check:
    name = "mongodb oplog window"
    # A young oplog is short but drops nothing; only a full one drops history.
    if embedded or hours >= _MIN_OPLOG_HOURS or fullness < 0.9:
        return Check(name, "ok", f"{hours:.1f} h so far, {fullness:.0%} full")
    return Check(
        name,
        "warning",
        f"{hours:.1f} h: a watcher that is down for longer loses events",
        f"enlarge the oplog (replSetResizeOplog) until it holds {_MIN_OPLOG_HOURS} h",
    )


def redact_url(url: str) -> str:
    """Keep user names; remove everything that may be a password."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return "(not a URL)"
    # Split at the last @, as an unescaped password may contain one.
    login, at, address = rest.rpartition("@")
    if at:
        user, colon, _ = login.partition(":")
        login = f"{user}:***" if colon else "***"
    redacted_address = _SECRET_OPTION.sub(r"\1***", address)
    return f"{scheme}://{login}{at}{redacted_address}"


def describe_unreadable_url(url: str, error: Exception) -> str:
    """Explain an invalid URL without the parser's message, which may quote a part of the password."""
    if "@" in url:
        return f"{redact_url(url)} cannot be read: in a password, characters such as @ : / are written %40 %3A %2F"
    return f"{redact_url(url)}: {error_line(error)}"
