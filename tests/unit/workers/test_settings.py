"""Settings: each variable, its errors, and the environment of child processes."""

import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from workers.admission.cap_settings import parse_caps
from workers.setting_values import Address, RetentionDays, parse_address
from workers.settings import (
    Settings,
    SettingsError,
    as_environment,
    load_settings,
    setting_fields,
    unknown_variables,
    variable_name,
)

WRITTEN: list[tuple[str, str, str, Any]] = [
    ("UNATTENDED_MONGODB_URL", "mongodb_url", "mongodb://h/?replicaSet=rs", "mongodb://h/?replicaSet=rs"),
    ("UNATTENDED_REDIS_URL", "redis_url", "redis://h/1", "redis://h/1"),
    ("UNATTENDED_DATABASE", "database", "other", "other"),
    ("UNATTENDED_PACKAGES", "packages", "/a:/b", (Path("/a"), Path("/b"))),
    ("UNATTENDED_MODELS", "models", "/m.yaml", Path("/m.yaml")),
    ("UNATTENDED_CONFIG", "config", "/o.yaml", Path("/o.yaml")),
    ("UNATTENDED_DATA_DIR", "data_dir", "/data", Path("/data")),
    ("UNATTENDED_CONCURRENCY", "concurrency", "7", 7),
    ("UNATTENDED_LEASE_S", "lease_s", "60", 60),
    ("UNATTENDED_MAX_ATTEMPTS", "max_attempts", "3", 3),
    ("UNATTENDED_CAPS", "caps", "app=2,workflow:W=3,rate=60/m", parse_caps("app=2,workflow:W=3,rate=60/m")),
    ("UNATTENDED_RETENTION_DAYS", "retention_days", "90, ledger=800", RetentionDays(90, 800)),
    ("UNATTENDED_MAX_MEMORY_MB", "max_memory_mb", "512", 512),
    ("UNATTENDED_REPUBLISH_AFTER_S", "republish_after_s", "5", 5),
    ("UNATTENDED_GRACE_S", "grace_s", "60", 60),
    ("UNATTENDED_QUEUE", "queue", "q", "q"),
    ("UNATTENDED_LISTEN", "listen", "[::1]:8000", Address("::1", 8000)),
    ("UNATTENDED_METRICS_LISTEN", "metrics_listen", "0.0.0.0:0", Address("0.0.0.0", 0)),  # noqa: S104 -- parsed, not bound
    ("UNATTENDED_MAX_APP_LABELS", "max_app_labels", "5", 5),
    ("UNATTENDED_BODY_LIMIT_BYTES", "body_limit_bytes", "1024", 1024),
    (
        "UNATTENDED_EXTERNAL_HOSTS",
        "external_hosts",
        "API.example.com, 127.0.0.1:8080,[::1]:80,[::2],",
        frozenset({"api.example.com", "127.0.0.1:8080", "[::1]:80", "[::2]"}),
    ),
    ("UNATTENDED_BILLING_URL", "billing_url", " https://b.example/x?t=1 ", "https://b.example/x?t=1"),
    (
        "UNATTENDED_BILLING_SECRET",
        "billing_secret",
        "env:NEW, file:/run/old\nenv:A",
        frozenset({"env:NEW", "file:/run/old", "env:A"}),
    ),
    ("UNATTENDED_BUDGETS_FAIL", "budgets_fail", "Open", "open"),
    ("UNATTENDED_LOG_FORMAT", "log_format", "JSON", "json"),
    ("UNATTENDED_LOG_LEVEL", "log_level", "Debug", "debug"),
    ("ENVIRONMENT", "environment", "production", "production"),
    ("CONTEXT_INCLUDE_SCHEMA", "include_schema", "off", False),
    ("CONTEXT_VERBOSE_DEBUG", "verbose_debug", "1", True),
    ("OTEL_EXPORTER_OTLP_ENDPOINT", "otlp_endpoint", " http://127.0.0.1:4318 ", "http://127.0.0.1:4318"),
]


@pytest.mark.parametrize(("variable", "name", "raw", "value"), WRITTEN, ids=[each[0] for each in WRITTEN])
def test_a_variable_sets_its_field_and_a_child_gets_the_same(variable: str, name: str, raw: str, value: Any) -> None:
    settings = load_settings({variable: raw})

    assert getattr(settings, name) == value
    assert getattr(load_settings(as_environment(settings)), name) == value


def test_every_setting_is_tested_here_and_they_stay_few() -> None:
    assert {variable_name(setting_field) for setting_field in setting_fields()} == {each[0] for each in WRITTEN}
    assert len(WRITTEN) <= 30


NO_NUMBERS = ("0", "-1", "1.5", "x", "²", "9" * 5000, "1_0", " 1")
NO_ADDRESSES = (
    *("8400", ":8400", "h:", "h:x", "h:65536", "h:-1", "::1", "::1:80", "[]:80", "[::1:80", "http://h:80"),
    "h:" + "9" * 5000,
)
NO_HOSTS = (
    *("https://h", "h/path", "u@h", "*", "*.h", "h:0", "h:x", "h:65536", "h h", "-h", ".h", "h.", "münchen.de"),
    *("[h]", "::1", "[::1", "::1]", "[::1]:", "[::1]x:80", ":80", "[]:80"),
)
NO_CAPS = (
    *("app", "app=", "app=0", "app=-1", "app=x", "app:=3", "user=3", "app=3/m", "rate=3", "rate=3/d", "app=1,app=2"),
    *("rate:a=1/s,rate:a=2/s", "app:a b=1", "app=1;workflow=2", "workflow:W:=", "app=1,x"),
)
NO_BILLING_URLS = (
    *("b.example", "ftp://b.example", "https://", "https://h:0", "https://h:x", "https://h/#part", "https://h /x"),
    *("https://u:p@h", "http://b.example", "http://8.8.8.8/x", "http://[2001:4860:4860::8888]", "https://[::1"),
    *("https://b..example", f"https://{'b' * 64}.example"),
)
NO_TRACES_URLS = (
    "127.0.0.1:4318",
    "grpc://u:p@h:4317",
    "http://",
    "http://h:0",
    "http://h:x",
    "http://[::1",
    "http://h /x",
)
OWN_NETWORK = ("127.0.0.1:8000", "[::1]", "10.0.0.7", "192.168.1.1", "localhost:1", "billing", "b.internal", "b.local")
NO_REFERENCES = (",", "whsec_c2VjcmV0", "env:", "env:A,whsec_c2VjcmV0", "vault:a")
NUMBERS = [each[0] for each in WRITTEN if type(each[3]) is int]


@pytest.mark.parametrize(
    ("variable", "raw"),
    [
        *[(variable, raw) for variable in NUMBERS for raw in NO_NUMBERS],
        *[(f"UNATTENDED_{name}", raw) for name in ("LISTEN", "METRICS_LISTEN") for raw in NO_ADDRESSES],
        *[("UNATTENDED_EXTERNAL_HOSTS", raw) for raw in NO_HOSTS],
        ("UNATTENDED_RETENTION_DAYS", "6"),
        ("UNATTENDED_RETENTION_DAYS", "30,ledger=34"),
        ("UNATTENDED_RETENTION_DAYS", "30,ledger"),
        ("UNATTENDED_RETENTION_DAYS", "runs=30"),
        *[("UNATTENDED_DATABASE", raw) for raw in ("a.b", "a b", "$a", "a/b", "ä" * 32)],
        *[("UNATTENDED_CAPS", raw) for raw in NO_CAPS],
        ("UNATTENDED_LOG_FORMAT", "xml"),
        ("UNATTENDED_LOG_LEVEL", "loud"),
    ],
)
def test_a_bad_value_names_its_variable(variable: str, raw: str) -> None:
    with pytest.raises(SettingsError, match=f"^{variable}="):
        load_settings({variable: raw})


@pytest.mark.parametrize(
    ("variable", "raw"),
    [
        *[("UNATTENDED_BILLING_URL", raw) for raw in NO_BILLING_URLS],
        *[("UNATTENDED_BILLING_SECRET", raw) for raw in NO_REFERENCES],
        *[("OTEL_EXPORTER_OTLP_ENDPOINT", raw) for raw in NO_TRACES_URLS],
    ],
)
def test_what_may_hold_a_secret_is_refused_without_being_shown(variable: str, raw: str) -> None:
    with pytest.raises(SettingsError, match=f"^{variable} cannot be used; write ") as refused:
        load_settings({variable: raw})

    assert not any(part in str(refused.value) for part in ("c2VjcmV0", "u:p", "b.example", "8.8.8.8"))


@pytest.mark.parametrize("place", OWN_NETWORK)
def test_usage_goes_unencrypted_only_to_ones_own_network(place: str) -> None:
    assert load_settings({"UNATTENDED_BILLING_URL": f"http://{place}/usage"}).billing_url == f"http://{place}/usage"


def test_where_usage_goes_is_not_in_what_settings_show() -> None:
    settings = load_settings({"UNATTENDED_BILLING_URL": "https://h/tok", "UNATTENDED_BILLING_SECRET": "env:KEY"})

    assert "tok" not in repr(settings)


@pytest.mark.parametrize("variable", [each[0] for each in WRITTEN if each[0] != "CONTEXT_INCLUDE_SCHEMA"])
def test_an_empty_variable_is_not_set(variable: str) -> None:
    assert replace(load_settings({variable: ""}), environ={}) == Settings()


@pytest.mark.design("D1-25")
@pytest.mark.parametrize(
    ("raw", "included"), [("", False), ("0", False), ("No", False), (" off ", False), ("1", True), ("anything", True)]
)
def test_the_schema_is_included_unless_it_is_switched_off(raw: str, included: bool) -> None:
    assert load_settings({"CONTEXT_INCLUDE_SCHEMA": raw}).include_schema is included
    assert load_settings({}).include_schema


@pytest.mark.parametrize(
    ("raw", "production"), [("production", True), (" Production ", True), ("prod", False), ("", False)]
)
def test_production_is_one_word_and_sees_no_environment(raw: str, production: bool) -> None:
    settings = load_settings({"ENVIRONMENT": raw, "REGION": "eu"})

    assert settings.production is production
    assert ("REGION" in settings.context_environment()) is not production


def test_flags_win_over_the_environment_also_when_they_name_the_default() -> None:
    settings = load_settings({"UNATTENDED_LEASE_S": "60", "ENVIRONMENT": "production"}, lease_s=30, concurrency=None)

    assert settings.lease_s == 30
    assert load_settings(as_environment(settings)).lease_s == 30
    assert load_settings(as_environment(settings)).production


def test_a_child_inherits_the_rest_of_the_environment_and_whole_paths(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    settings = load_settings({"PATH": "/bin"}, packages=(Path("a"), Path("b")), models=Path("m.yaml"))

    environment = as_environment(settings)

    assert environment == {
        "PATH": "/bin",
        "UNATTENDED_PACKAGES": f"{tmp_path / 'a'}:{tmp_path / 'b'}",
        "UNATTENDED_MODELS": str(tmp_path / "m.yaml"),
        "UNATTENDED_DATA_DIR": str(tmp_path / ".unattended"),
    }


def test_paths_are_those_of_the_directory_where_the_process_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "key").write_text("s3cret", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    settings = load_settings({"UNATTENDED_PACKAGES": "a", "UNATTENDED_MODELS": "m.yaml", "UNATTENDED_DATA_DIR": "d"})
    monkeypatch.chdir("/")

    assert (settings.packages, settings.models) == ((tmp_path / "a",), tmp_path / "m.yaml")
    assert (settings.data_dir, settings.resolve_secret("file:key")) == (tmp_path / "d", "s3cret")


@given(st.fixed_dictionaries({}, optional={each[0]: st.just(each[2]) for each in WRITTEN}))
def test_any_settings_reach_a_child_unchanged(environ: dict[str, str]) -> None:
    settings = load_settings(environ)
    child = load_settings(as_environment(settings))
    assert replace(child, environ={}) == replace(settings, environ={})


def test_settings_do_not_show_what_is_secret() -> None:
    settings = load_settings(
        {
            "UNATTENDED_MONGODB_URL": "mongodb://u:canary@h/",
            "UNATTENDED_REDIS_URL": "redis://:canary@h/",
            "OPENAI_API_KEY": "canary",
        }
    )
    assert "canary" not in repr(settings)
    assert "canary" not in str(settings)


def test_secrets_are_resolved_by_reference_only(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a file\n")
    settings = load_settings({"KEY": "from the environment", "EMPTY": "", "ENVIRONMENT": "production"})

    assert settings.resolve_secret("env:KEY") == "from the environment"
    assert settings.resolve_secret(f"file:{tmp_path / 'key'}") == "from a file"


@pytest.mark.parametrize(
    "reference",
    [
        *("env:ABSENT", "env:EMPTY", "env:", "file:", "file:/absent", "file:/", "canary", "", "ENV:KEY"),
        *("file:~no-such-user/key", "file:a\0b", "file:/dev/zero"),  # they must not stop a worker, nor fill its memory
    ],
)
def test_an_unresolvable_secret_is_reported(reference: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings({"EMPTY": "", "KEY": "x"}).resolve_secret(reference)

    assert "canary" not in str(caught.value)


def test_a_secret_is_a_small_regular_file(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "large").write_bytes(b"x" * 70_000)
    (tmp_path / "binary").write_bytes(b"\xff\xfe")

    for name, reason in (("pipe", "not a regular file"), ("large", "more than 64 KB"), ("binary", "utf-8")):
        with pytest.raises(SettingsError, match=reason):
            load_settings({}).resolve_secret(f"file:{tmp_path / name}")
        with pytest.raises(SettingsError, match=reason):
            load_settings({"UNATTENDED_MONGODB_URL": f"file:{tmp_path / name}"})


def test_misspelled_variables_are_found() -> None:
    environ = {"UNATTENDED_LEASE": "5", "UNATTENDED_LEASE_S": "5", "OTHER": "x"}
    assert unknown_variables(environ) == ["UNATTENDED_LEASE"]


@given(st.ip_addresses(), st.integers(0, 65535))
def test_an_address_is_written_as_it_is_read(host: Any, port: int) -> None:
    address = Address(str(host), port)
    assert parse_address(str(address)) == address


def test_settings_are_frozen_and_each_field_but_the_snapshot_a_variable() -> None:
    beside = {field.name for field in fields(Settings)} - {setting_field.name for setting_field in setting_fields()}
    assert beside == {"environ", "directory"}
    with pytest.raises(AttributeError):
        Settings().lease_s = 5  # type: ignore[misc]  # -- that it is refused is what is tested


@pytest.mark.parametrize("variable", ["UNATTENDED_MONGODB_URL", "UNATTENDED_REDIS_URL"])
def test_a_url_with_a_password_may_stand_in_a_file(tmp_path: Path, variable: str) -> None:
    held = tmp_path / "url"
    held.write_text("mongodb://user:hunter2@h/?replicaSet=rs\n")

    settings = load_settings({variable: f"file:{held}"})

    assert {settings.mongodb_url, settings.redis_url} == {None, "mongodb://user:hunter2@h/?replicaSet=rs"}
    assert "hunter2" not in repr(settings)


@pytest.mark.parametrize("held", [None, " \n"])
def test_a_file_without_a_url_is_refused_and_is_not_the_embedded_servers(tmp_path: Path, held: str | None) -> None:
    if held is not None:
        (tmp_path / "url").write_text(held)

    with pytest.raises(SettingsError, match=r"^UNATTENDED_MONGODB_URL cannot be used; write a URL, or file:PATH .*url"):
        load_settings({"UNATTENDED_MONGODB_URL": f"file:{tmp_path / 'url'}"})
