"""The check runner of the doctor: runs all checks at once, each with a timeout."""

import asyncio
import difflib
from collections.abc import Awaitable, Iterator, Sequence

from ops.doctor.address_checks import check_addresses
from ops.doctor.billing_checks import check_billing
from ops.doctor.broker_checks import check_redis
from ops.doctor.check_result import Check, error_line
from ops.doctor.embedded_checks import check_data_dir, check_embedded_mongodb, check_embedded_redis
from ops.doctor.mongodb_checks import check_mongodb
from ops.doctor.package_and_model_checks import check_packages_and_models
from workers.embedded_services import Services, read_services
from workers.settings import Settings, SettingsError, setting_fields, unknown_variables, variable_name
from workflows.operator_file import OPERATOR_FILE_NAME, OperatorFileError, find_operator_path, read_operator_file

TIMEOUT_S = 3.0

NamedChecks = tuple[str, Awaitable[list[Check]]]


async def examine(settings: Settings, *, timeout_s: float = TIMEOUT_S) -> list[Check]:
    """Run all checks; `settings` must not contain the addresses of embedded servers."""
    services = await asyncio.to_thread(read_services, settings.data_dir)
    examinations = [
        *_server_checks(settings, services),
        ("addresses", check_addresses(settings.listen, settings.metrics_listen)),
        ("packages", check_packages_and_models(settings)),
        ("operator's file", check_operator_file(settings)),
        ("billing", check_billing(settings)),
    ]
    found = await asyncio.gather(*(_run_bounded(name, checks, timeout_s) for name, checks in examinations))
    return [*check_settings(settings), *(check for checks in found for check in checks)]


def _server_checks(settings: Settings, services: Services | None) -> Iterator[NamedChecks]:
    redis_url = settings.redis_url or (services and services.redis_url)
    mongodb_url = settings.mongodb_url or (services and services.mongodb_url)
    if redis_url:
        yield "redis", check_redis(redis_url)
    if mongodb_url:
        embedded = not settings.mongodb_url
        yield "mongodb", check_mongodb(mongodb_url, database=settings.database, embedded=embedded)
    if not settings.redis_url:
        yield "embedded redis", check_embedded_redis()
    if not settings.mongodb_url:
        yield "embedded mongodb", check_embedded_mongodb()
    if not (settings.redis_url and settings.mongodb_url):
        yield "data directory", check_data_dir(settings.data_dir)


async def _run_bounded(name: str, checks: Awaitable[list[Check]], timeout_s: float) -> list[Check]:
    try:
        async with asyncio.timeout(timeout_s):
            return await checks
    except TimeoutError:
        return [Check(name, "problem", f"no answer within {timeout_s:.0f} s", "check whether it hangs, then try again")]
    except OSError as error:  # a file or folder that is not readable
        return [Check(name, "problem", error_line(error), "correct its name or its permissions")]


def check_settings(settings: Settings) -> list[Check]:
    known = [variable_name(field) for field in setting_fields()]
    unknown = unknown_variables(settings.environ)
    warnings = [
        Check("settings", "warning", f"{name} is not a setting", _suggest_setting(name, known)) for name in unknown
    ]
    stage = settings.environment.strip()
    if not settings.production and stage.lower().startswith(("prod", "live")):
        advice = "set ENVIRONMENT=production; otherwise environment variables reach contexts and prompts"
        warnings.append(Check("settings", "warning", f"ENVIRONMENT={stage} is not production", advice))
    used = sum(name in settings.environ for name in known)
    return warnings or [Check("settings", "ok", f"{used} of {len(known)} set in the environment")]


def settings_problem(error: SettingsError) -> Check:
    """Return the only result when the settings cannot be read, since every other check needs them."""
    found, _, advice = str(error).partition("; ")
    return Check("settings", "problem", found, advice)


def _suggest_setting(name: str, known: Sequence[str]) -> str:
    close = difflib.get_close_matches(name, known, n=1)
    return f"did you mean {close[0]}?" if close else "remove it; the README lists the settings"


async def check_operator_file(settings: Settings) -> list[Check]:
    return [await asyncio.to_thread(_check_operator_file, settings)]


def _check_operator_file(settings: Settings) -> Check:
    path = find_operator_path(settings.config)
    if path is None:
        return Check(
            "operator's file", "ok", f"none: ./{OPERATOR_FILE_NAME} does not exist, and UNATTENDED_CONFIG is not set"
        )
    try:
        file = read_operator_file(path, own_database=settings.database)
    except OperatorFileError as error:
        return Check("operator's file", "problem", error_line(error), "correct the file, or set UNATTENDED_CONFIG")
    databases = ", ".join(file.compat.databases) or "none"
    return Check("operator's file", "ok", f"databases for tools (compat): {databases} ({path})")
