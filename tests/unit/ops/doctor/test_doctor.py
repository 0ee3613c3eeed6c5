import asyncio
import shutil
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.prices import built_in_prices
from ops.doctor.address_checks import check_address, check_addresses
from ops.doctor.check_result import Check, error_line, has_problem
from ops.doctor.check_runner import check_settings, examine
from ops.doctor.embedded_checks import check_data_dir
from ops.doctor.mongodb_checks import check_oplog, describe_unreadable_url, redact_url
from ops.doctor.package_and_model_checks import check_packages_and_models
from workers.setting_values import Address
from workers.settings import Settings
from workflows import provider_libraries
from workflows.package.catalog import LIBRARY


@asynccontextmanager
async def answering_server(answer: bytes) -> AsyncIterator[Address]:
    async def answer_and_close(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(answer)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer_and_close, "127.0.0.1", 0) as server:
        yield Address("127.0.0.1", server.sockets[0].getsockname()[1])


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://127.0.0.1:6379/0", "redis://127.0.0.1:6379/0"),
        ("redis://:secret@host/0", "redis://:***@host/0"),
        ("mongodb://u:p%40ss@a,b/?replicaSet=rs0", "mongodb://u:***@a,b/?replicaSet=rs0"),
        ("mongodb+srv://u:p@ss/w@host/db", "mongodb+srv://u:***@host/db"),
        ("redis://secret@host", "redis://***@host"),
        ("redis://host/0?password=secret&db=1", "redis://host/0?password=***&db=1"),
        ("mongodb://h/?tlsCertificateKeyFilePassword=x&a=b", "mongodb://h/?tlsCertificateKeyFilePassword=***&a=b"),
        ("mongodb://h/?authMechanismProperties=AWS_SESSION_TOKEN:x", "mongodb://h/?authMechanismProperties=***"),
        ("secret", "(not a URL)"),
    ],
)
def test_passwords_are_redacted(url: str, shown: str) -> None:
    assert redact_url(url) == shown


@settings(deadline=None)  # a busy machine must not fail the test
@given(password=st.text(min_size=1).map(lambda text: f"<{text}>"))
def test_no_password_is_ever_shown(password: str) -> None:
    for url in (f"redis://user:{password}@host/0", f"mongodb://host/?x=1&password={password.replace('&', '')}"):
        assert password not in redact_url(url)
        assert password not in describe_unreadable_url(
            url, ValueError(f"port is not a number: {password}" if "@" in url else "")
        )


def test_only_problems_break() -> None:
    assert not has_problem([Check("a", "ok", ""), Check("b", "warning", "")])
    assert has_problem([Check("a", "ok", ""), Check("b", "problem", "")])


def test_an_error_is_one_line() -> None:
    assert error_line(ValueError("a\n  b")) == "a b"
    assert error_line(ValueError()) == "ValueError"
    assert len(error_line(ValueError("x" * 999))) == 301


@pytest.mark.parametrize(("stage", "level"), [("prod", "warning"), ("Production ", "ok"), ("staging", "ok")])
def test_what_only_looks_like_production_is_a_warning(stage: str, level: str) -> None:
    [check] = check_settings(Settings(environment=stage, environ={}))

    assert check.level == level


def test_a_misspelt_setting_is_a_warning_with_the_right_name() -> None:
    [check] = check_settings(Settings(environ={"UNATTENDED_MONGO_URL": "x", "OTHER": "y"}))

    assert (check.level, check.found) == ("warning", "UNATTENDED_MONGO_URL is not a setting")
    assert check.advice == "did you mean UNATTENDED_MONGODB_URL?"


def test_known_settings_are_counted() -> None:
    [check] = check_settings(Settings(environ={"UNATTENDED_QUEUE": "q", "ENVIRONMENT": "production"}))

    assert check.level == "ok"
    assert check.found.startswith("2 of ")


@pytest.mark.parametrize(
    ("hours", "fullness", "embedded", "level"),
    [(30, 1.0, False, "ok"), (2, 1.0, False, "warning"), (2, 0.1, False, "ok"), (2, 1.0, True, "ok")],
)
def test_only_a_full_oplog_can_be_too_short(hours: float, fullness: float, embedded: bool, level: str) -> None:
    assert check_oplog(hours, fullness, embedded=embedded).level == level


async def test_a_free_address_is_good() -> None:
    [check] = await check_address("gateway address", Address("127.0.0.1", 0), "UNATTENDED_LISTEN")

    assert check.level == "ok"


async def test_an_address_that_we_serve_is_good() -> None:
    async with answering_server(b"HTTP/1.0 200 OK\r\n\r\n# TYPE unattended_runs_total counter\n") as address:
        [check] = await check_address("gateway address", address, "UNATTENDED_LISTEN")

    assert (check.level, check.found) == ("ok", f"{address} is in use by unattended")


async def test_an_address_that_another_serves_is_a_problem() -> None:
    async with answering_server(b"HTTP/1.0 404 Not Found\r\n\r\n") as address:
        [check] = await check_address("gateway address", address, "UNATTENDED_LISTEN")

    assert (check.level, check.advice) == ("problem", "stop it, or set UNATTENDED_LISTEN")


async def test_an_address_with_a_silent_listener_is_a_problem() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = Address(*server.getsockname())
        [check] = await check_address("gateway address", address, "UNATTENDED_LISTEN", metrics_timeout_s=0.05)

    assert check.level == "problem"


async def test_an_address_of_another_machine_is_a_problem() -> None:
    [check] = await check_address("exporter address", Address("192.0.2.1", 9400), "UNATTENDED_METRICS_LISTEN")

    assert check.level == "problem"
    assert check.advice == "set UNATTENDED_METRICS_LISTEN"


@pytest.mark.parametrize(
    ("gateway", "exporter", "clash"),
    [
        (Address("127.0.0.1", 9400), Address("127.0.0.1", 9400), True),
        (Address("0.0.0.0", 9400), Address("127.0.0.1", 9400), True),  # noqa: S104 -- not bound
        (Address("127.0.0.1", 9400), Address("0.0.0.0", 9400), True),  # noqa: S104 -- not bound
        (Address("::", 9400), Address("::1", 9400), True),
        (Address("::1", 9400), Address("127.0.0.1", 9400), False),
        (Address("127.0.0.2", 9400), Address("127.0.0.1", 9400), False),
        (Address("127.0.0.1", 8400), Address("127.0.0.1", 9400), False),
        (Address("127.0.0.1", 0), Address("127.0.0.1", 0), False),
        (Address("no such host", 9400), Address("no such host", 9400), True),
    ],
)
async def test_two_addresses_in_one_place_are_a_problem(gateway: Address, exporter: Address, clash: bool) -> None:
    checks = [check for check in await check_addresses(gateway, exporter) if check.name == "addresses"]

    assert [check.level for check in checks] == ["problem"] * clash
    assert all("UNATTENDED_METRICS_LISTEN" in check.advice for check in checks)


async def test_a_data_directory_is_not_created_by_asking(tmp_path: Path) -> None:
    [check] = await check_data_dir(tmp_path / "a" / "b")

    assert check.level == "ok"
    assert not (tmp_path / "a").exists()


async def test_a_data_directory_of_a_newer_version_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / "format.json").write_text('{"format": 2}', encoding="utf-8")

    [check] = await check_data_dir(tmp_path)

    assert (check.level, check.advice) == ("problem", "choose another UNATTENDED_DATA_DIR")


def by_name(checks: list[Check]) -> dict[str, Check]:
    return {check.name: check for check in checks}


def copy_of_the_library(folder: Path) -> Path:
    shutil.copytree(LIBRARY, folder / "packages")
    return folder / "packages"


async def test_the_shipped_packages_and_their_models_are_good(tmp_path: Path) -> None:
    packages = copy_of_the_library(tmp_path)

    checks = await check_packages_and_models(Settings(packages=(packages,), models=packages / "models.yaml"))

    assert [(check.name, check.level) for check in checks] == [
        ("package DailyDigest", "ok"),
        ("package IssueTriage", "ok"),
        ("package LeadIntake", "ok"),
        ("package OrderFollowUp", "ok"),
        ("models", "ok"),
    ]


async def test_a_host_that_is_not_allowed_is_a_warning(tmp_path: Path) -> None:
    packages = copy_of_the_library(tmp_path)
    file = packages / "DailyDigest" / "context_variables.yaml"
    variables = yaml.safe_load(file.read_text(encoding="utf-8"))
    variables["definitions"]["v"] = {"source": {"type": "external", "url": "https://api.example.com"}}
    file.write_text(yaml.safe_dump(variables), encoding="utf-8")

    checks = await check_packages_and_models(Settings(packages=(packages,), models=packages / "models.yaml"))

    (check,) = [each for each in checks if each.name == "package DailyDigest"]
    assert check.level == "warning"
    assert check.found.endswith("[host_not_allowed]")


async def test_a_chain_behind_a_workflow_of_no_package_is_a_warning(tmp_path: Path) -> None:
    packages = copy_of_the_library(tmp_path)
    chain = {"name": "after", "type": "run_finished", "workflow": "DailyDigests", "input": {"order_id": "=run_id"}}
    (packages / "OrderFollowUp" / "triggers.yaml").write_text(yaml.safe_dump([chain]), encoding="utf-8")

    checks = await check_packages_and_models(Settings(packages=(packages,), models=packages / "models.yaml"))

    check = by_name(checks)["package OrderFollowUp"]
    assert check.level == "warning"
    assert "which is not a workflow here; did you mean DailyDigest? [unknown_workflow]" in check.found


async def test_a_refused_package_is_a_problem_that_names_file_and_place(tmp_path: Path) -> None:
    packages = copy_of_the_library(tmp_path)
    (packages / "DailyDigest" / "handoffs.yaml").write_text(
        "handoff_rules: [{source_agent: Nobody, target_agent: end}]"
    )

    check = by_name(await check_packages_and_models(Settings(packages=(packages,))))["package DailyDigest"]

    assert check.level == "problem"
    assert "handoffs.yaml: handoff_rules[0].source_agent" in check.found
    assert check.advice == "unattended packages show DailyDigest"


async def test_an_absent_directory_is_a_problem_and_an_empty_one_a_warning(tmp_path: Path) -> None:
    missing = await check_packages_and_models(Settings(packages=(tmp_path / "nowhere",)))
    empty = await check_packages_and_models(Settings(packages=(tmp_path,)))

    assert by_name(missing)["packages"].level == "problem"
    assert by_name(empty)["packages"].level == "warning"


@pytest.mark.parametrize(
    ("models", "found"),
    [
        ("models: [", "models.yaml: line 2, column 1"),
        ("models: {default: {provider: openai, model: m, api_key: env:NO_SUCH_KEY}}", "NO_SUCH_KEY"),
        ("models: {default: {provider: script, file: none.yaml}}", "none.yaml"),
        ("models: {other: {provider: openai, model: m}}", "uses the alias default"),
    ],
)
async def test_models_that_would_fail_a_run_are_problems(tmp_path: Path, models: str, found: str) -> None:
    (tmp_path / "models.yaml").write_text(models)

    checks = await check_packages_and_models(Settings(models=tmp_path / "models.yaml"))

    problems = [check for check in checks if check.level == "problem"]
    assert problems
    assert found in problems[0].found


async def test_each_model_has_a_price_or_is_reported_without_one(tmp_path: Path) -> None:
    (tmp_path / "models.yaml").write_text(
        "models: {default: {provider: openai, model: gpt-5-mini}, mine: {provider: openai, model: smollm2},"
        " own: {provider: openai, model: m}, canned: {provider: script, file: models.yaml}}\n"
        "prices: [{model: m, input: 1, output: 2}]"
    )

    checks = await check_packages_and_models(Settings(models=tmp_path / "models.yaml"))

    assert [(each.level, each.found, each.advice) for each in checks if each.name == "prices"] == [
        ("ok", f"default ({built_in_prices().name}), own (models file)", ""),
        ("warning", "mine: no price is known for smollm2", f"add one to {tmp_path / 'models.yaml'}"),
    ]


async def test_a_model_whose_library_is_not_installed_is_a_problem(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(provider_libraries, "find_spec", lambda _: None)
    (tmp_path / "models.yaml").write_text("models: {default: {provider: ollama, model: m}}")

    checks = await check_packages_and_models(Settings(models=tmp_path / "models.yaml"))

    [problem] = [check for check in checks if check.level == "problem"]
    assert problem.found == "default: the library of provider ollama is not installed"
    assert problem.advice == "pip install -c constraints.txt -e '.[ollama]'"


async def test_a_check_that_hangs_is_a_problem_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def hangs(_: Settings) -> list[Check]:
        await asyncio.Event().wait()
        return []

    monkeypatch.setattr("ops.doctor.check_runner.check_packages_and_models", hangs)
    nowhere = Address("127.0.0.1", 0)
    settings = Settings(
        mongodb_url="nonsense", redis_url="nonsense", data_dir=tmp_path, listen=nowhere, metrics_listen=nowhere
    )

    checks = {check.name: check for check in await examine(settings, timeout_s=0.05)}

    assert (checks["packages"].level, checks["settings"].level) == ("problem", "ok")
    assert (checks["redis"].level, checks["mongodb"].level) == ("problem", "problem")


OPERATOR_FILES = [
    (None, "ok", "none: ./unattended.yaml does not exist, and UNATTENDED_CONFIG is not set", ""),
    ("compat: {databases: [shop, kb]}", "ok", "databases for tools (compat): shop, kb (", ""),
    ("", "ok", "databases for tools (compat): none (", ""),
    ("compat: {databases: [mine]}", "problem", "mine belongs to Unattended itself", "correct the file, or set"),
    ("public_url: x", "problem", "public_url is not a key of the operator's file", "correct the file, or set"),
]


@pytest.mark.parametrize(("text", "level", "found", "advice"), OPERATOR_FILES)
async def test_the_operators_file_has_a_line_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str | None, level: str, found: str, advice: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if text is not None:
        (tmp_path / "unattended.yaml").write_text(text, encoding="utf-8")

    check = by_name(await examine(Settings(database="mine", data_dir=tmp_path)))["operator's file"]

    assert check.level == level
    assert found in check.found
    assert check.advice.startswith(advice)


async def test_an_unset_variable_that_a_package_requires_is_a_problem(tmp_path: Path) -> None:
    packages = copy_of_the_library(tmp_path)
    file = packages / "DailyDigest" / "orchestrator.yaml"
    orchestrator = yaml.safe_load(file.read_text(encoding="utf-8"))
    file.write_text(yaml.safe_dump({**orchestrator, "requires": {"env": ["SLACK_URL"]}}), encoding="utf-8")
    settings = Settings(packages=(packages,), models=packages / "models.yaml")

    found = {
        name: by_name(await check_packages_and_models(replace(settings, environ=environ)))["package DailyDigest"]
        for name, environ in (("absent", {}), ("there", {"SLACK_URL": "s3cr3t"}))
    }

    assert (found["absent"].level, found["there"].level) == ("problem", "ok")
    message = "orchestrator.yaml: requires.env: the environment variable SLACK_URL is not set"
    assert found["absent"].found.startswith(message)
    assert found["absent"].advice == "set it in the environment of the workers"
    assert "s3cr3t" not in str(found)
