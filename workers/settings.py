"""Settings: one frozen object, read from the environment only here."""

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from workers.admission.cap_settings import Caps, parse_caps
from workers.setting_values import (
    Address,
    RetentionDays,
    database_name,
    hosts,
    https_url,
    one_of,
    parse_address,
    path,
    paths,
    plain_text,
    positive_int,
    read_secret_file,
    retention_days,
    secret_references,
    server_url,
    traces_url,
    truthy,
    truthy_unless_falsy,
)

PREFIX = "UNATTENDED_"


class SettingsError(ValueError):
    """An unusable setting. The text names the variable and what to write instead."""


def start_directory() -> Path:
    try:
        return Path.cwd()
    except FileNotFoundError:  # the directory was deleted: relative paths are useless in any case
        return Path("/")


def _setting(
    description: str,
    *,
    default: Any,
    parse: Callable[[str], Any],
    name: str = "",
    shown: str = "",
    secret: bool = False,
) -> Any:
    """Creates a dataclass field with its variable.

    `shown` is the default as the README prints it.
    """
    metadata = {"description": description, "parse": parse, "name": name, "shown": shown}
    return field(default=default, metadata=metadata, repr=not secret)


@dataclass(frozen=True, slots=True)
class Settings:
    mongodb_url: str | None = _setting(
        "MongoDB replica set; unset: the embedded servers",
        default=None,
        parse=server_url,
        shown="embedded",
        secret=True,
    )
    redis_url: str | None = _setting(
        "Celery broker: Redis, Sentinel or RabbitMQ, see `docs/brokers.md`; unset: the embedded servers",
        default=None,
        parse=server_url,
        shown="embedded",
        secret=True,
    )
    database: str = _setting("MongoDB database of runs, turns, usage", default="unattended", parse=database_name)
    packages: tuple[Path, ...] = _setting(
        "Directories of workflow packages, separated like PATH",
        default=(),
        parse=paths,
        shown="`./workflows`, else the shipped library",
    )
    models: Path | None = _setting(
        "Models file: alias to provider, model, key, prices",
        default=None,
        parse=path,
        shown="`./models.yaml`, else the library's canned answers",
    )
    config: Path | None = _setting(
        "The operator's file: see `docs/operator-file.md`",
        default=None,
        parse=path,
        shown="`./unattended.yaml`, else none",
    )
    data_dir: Path = _setting("Where the embedded servers keep data", default=Path(".unattended"), parse=path)
    concurrency: int = _setting("Runs at once in one worker process", default=200, parse=positive_int)
    lease_s: int = _setting("Seconds until a dead worker's run is taken over", default=30, parse=positive_int)
    max_attempts: int = _setting("Attempts of a run before it is parked", default=5, parse=positive_int)
    caps: Caps = _setting(
        "Runs at once and starts per time, as `app=20,app:acme=50,workflow:Digest=3,rate=60/m,rate:acme=10/s`",
        default=Caps(),
        parse=parse_caps,
        shown="none",
    )
    retention_days: RetentionDays = _setting(
        "Days a finished run is kept, at least 7, and a row of the ledger, at least 35; parked runs and totals stay",
        default=RetentionDays(),
        parse=retention_days,
        shown="`30,ledger=400`",
    )
    max_memory_mb: int = _setting(
        "A worker above this hands its runs back and restarts", default=2048, parse=positive_int
    )
    republish_after_s: int = _setting(
        "Seconds before a queued run's wake-up counts as lost", default=15, parse=positive_int
    )
    grace_s: int = _setting(
        "Seconds in which turns may end when a worker stops; it exits at most two later",
        default=7,
        parse=positive_int,
    )
    queue: str = _setting("Name of the Celery queue", default="unattended", parse=plain_text)
    listen: Address = _setting(
        "Address of the gateway", default=Address("127.0.0.1", 8400), parse=parse_address, shown="127.0.0.1:8400"
    )
    metrics_listen: Address = _setting(
        "Address of the exporter; other roles take the next free ports",
        default=Address("127.0.0.1", 9400),
        parse=parse_address,
        shown="127.0.0.1:9400",
    )
    max_app_labels: int = _setting(
        "Number of apps with a metric label of their own; the others share `_other`", default=100, parse=positive_int
    )
    body_limit_bytes: int = _setting("Largest accepted HTTP body", default=1_048_576, parse=positive_int)
    external_hosts: frozenset[str] = _setting(
        "Hosts that packages may read values from, as `host,host:port`",
        default=frozenset(),
        parse=hosts,
        shown="none",
    )
    billing_url: str | None = _setting(
        "Where signed usage is posted, see `docs/billing.md`; unset: nowhere",
        default=None,
        parse=https_url,
        shown="none",
        secret=True,
    )
    billing_secret: frozenset[str] = _setting(
        "Signing secrets of billing, `env:NAME` or `file:PATH`; several, separated by commas, during a rotation",
        default=frozenset(),
        parse=secret_references,
        shown="none",
        secret=True,  # a secret written here by mistake must not appear in a log
    )
    budgets_fail: str = _setting(
        "Model calls while budgets cannot be checked: `closed` refuses them, `open` allows them",
        default="closed",
        parse=one_of("closed", "open"),
    )
    log_format: str = _setting("console or json", default="console", parse=one_of("console", "json"))
    log_level: str = _setting(
        "debug, info, warning or error", default="info", parse=one_of("debug", "info", "warning", "error")
    )
    environment: str = _setting(
        "`production` removes every environment variable from contexts",
        default="development",
        parse=plain_text,
        name="ENVIRONMENT",
    )
    include_schema: bool = _setting(
        "Falsy: database variables are not loaded",
        default=True,
        parse=truthy_unless_falsy,
        name="CONTEXT_INCLUDE_SCHEMA",
    )
    verbose_debug: bool = _setting(
        "1: context changes appear in the log", default=False, parse=truthy, name="CONTEXT_VERBOSE_DEBUG"
    )
    otlp_endpoint: str | None = _setting(
        "Where traces go, see `docs/tracing.md`",
        default=None,
        parse=traces_url,
        name="OTEL_EXPORTER_OTLP_ENDPOINT",
        shown="none",
        secret=True,
    )
    # A snapshot, so that no other code reads the process environment. Never shown: it holds secrets.
    environ: Mapping[str, str] = field(default_factory=dict, repr=False)
    # The start directory. Code of packages may change the current one: our paths do not depend on it.
    directory: Path = field(default_factory=start_directory, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in ("models", "data_dir"):
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, self.directory / value)
        object.__setattr__(self, "packages", tuple(self.directory / package for package in self.packages))

    @property
    def production(self) -> bool:
        return self.environment.strip().lower() == "production"

    def context_environment(self) -> Mapping[str, str]:
        """Returns the variables that a workflow may see: in production none."""
        return {} if self.production else self.environ

    def resolve_secret(self, reference: str) -> str:
        kind, _, name = reference.partition(":")
        if kind == "env" and name:
            value = self.environ.get(name)
            if not value:
                raise SettingsError(f"the secret {reference} is not set; export {name}")
            return value
        if kind == "file" and name:
            try:
                return read_secret_file(name, directory=self.directory)
            except ValueError as error:
                raise SettingsError(f"the secret {reference} cannot be read: {error}") from None
        raise SettingsError("a secret is written env:NAME or file:PATH, not in clear text")


def setting_fields() -> list[Any]:
    return [setting for setting in fields(Settings) if "parse" in setting.metadata]


def variable_name(setting: Any) -> str:
    return str(setting.metadata["name"] or PREFIX + setting.name.upper())


def load_settings(environ: Mapping[str, str] | None = None, **overrides: Any) -> Settings:
    """Reads settings from an environment, by default that of the process.

    Flags win over it.
    """
    source = dict(os.environ if environ is None else environ)
    values: dict[str, Any] = {"environ": source}
    for setting in setting_fields():
        variable = variable_name(setting)
        raw = source.get(variable)
        # An empty variable means "not set", except for flags that an empty value turns off.
        if raw is None or (raw == "" and setting.default is not True):
            continue
        try:
            values[setting.name] = setting.metadata["parse"](raw)
        except ValueError as error:
            assignment = f"{variable}={raw!r}" if setting.repr else variable
            raise SettingsError(f"{assignment} cannot be used; write {error}") from None
    flags = {name: value for name, value in overrides.items() if value is not None}
    return replace(Settings(**values), **flags)


def unknown_variables(environ: Mapping[str, str]) -> list[str]:
    known = {variable_name(setting) for setting in setting_fields()}
    return sorted(name for name in environ if name.startswith(PREFIX) and name not in known)


def as_environment(settings: Settings) -> dict[str, str]:
    """Returns the variables that give a child process the same settings.

    They come on top of the environment that it inherits.
    """
    result = dict(settings.environ)
    for setting in setting_fields():
        value = getattr(settings, setting.name)
        if value is None or value == setting.default:
            result.pop(variable_name(setting), None)  # a flag may have replaced a value of the environment
            continue
        if isinstance(value, tuple):
            value = os.pathsep.join(str(path.resolve()) for path in value)
        elif isinstance(value, frozenset):
            value = ",".join(sorted(value))
        elif isinstance(value, bool):
            value = "1" if value else "0"
        elif isinstance(value, Path):
            value = value.resolve()
        result[variable_name(setting)] = str(value)
    return result
