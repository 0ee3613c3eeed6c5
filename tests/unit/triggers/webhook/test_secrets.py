"""A trigger's secrets: what resolves counts, what does not is reported once."""

import logging
from pathlib import Path

import pytest

from triggers.register.trigger import Trigger
from triggers.webhook.secrets import Secrets
from workers.settings import Settings
from workflows.package.trigger_specs.webhook import Verification, WebhookSpec


def found(settings: Settings, *references: str) -> tuple[str, ...] | None:
    return asked(Secrets(settings), Verification(scheme="github", secret=references))


def asked(secrets: Secrets, verify: Verification) -> tuple[str, ...] | None:
    spec = WebhookSpec(name="paid", apps=("acme",), verify=verify)
    return secrets.of(Trigger("Orders", spec), spec)


def test_references_resolve_to_secrets(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("from a file\n")
    settings = Settings(environ={"KEY": "from the environment"})

    assert found(settings, "env:KEY", f"file:{tmp_path / 'key'}") == ("from the environment", "from a file")


def test_an_empty_secret_file_is_no_secret(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("\n")
    assert found(Settings(), f"file:{tmp_path / 'key'}") is None


def test_during_a_rotation_the_secret_that_is_there_counts() -> None:
    assert found(Settings(environ={"OLD": "old"}), "env:NEW", "env:OLD") == ("old",)


def test_a_rotated_file_is_read_with_the_next_call(tmp_path: Path) -> None:
    key, secrets = tmp_path / "key", Secrets(Settings())
    verify = Verification(scheme="github", secret=(f"file:{key}",))
    for text in ("old", "new"):
        key.write_text(text)
        assert asked(secrets, verify) == (text,)


def test_a_missing_secret_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    secrets = Secrets(Settings())

    with caplog.at_level(logging.WARNING):
        for _ in range(3):
            assert asked(secrets, Verification(scheme="github", secret=("env:KEY",))) is None

    assert [record.getMessage() for record in caplog.records] == ["webhook_secret_missing"]


@pytest.mark.parametrize(
    ("environment", "twice", "may_call"),
    [
        ("development", False, True),
        ("development", True, True),
        ("production", False, False),
        ("Production ", False, False),
        ("production", True, True),
    ],
)
def test_no_verification_has_to_be_said_twice_in_production(environment: str, twice: bool, may_call: bool) -> None:
    verify = Verification(scheme="none", even_in_production=twice)
    assert (asked(Secrets(Settings(environment=environment)), verify) is not None) is may_call
