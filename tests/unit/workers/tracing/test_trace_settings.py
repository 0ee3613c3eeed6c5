"""Trace settings: the variables of the OpenTelemetry standard."""

import logging
from typing import Any

import pytest

from workers.settings import Settings, SettingsError, load_settings
from workers.tracing.trace_settings import is_content_wanted, traces_endpoint
from workers.tracing.tracing import NO_TRACING, open_tracing

BASE = "OTEL_EXPORTER_OTLP_ENDPOINT"
WHOLE = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"


@pytest.mark.parametrize(
    ("environ", "endpoint"),
    [
        ({}, None),
        ({BASE: "http://c:4318"}, "http://c:4318/v1/traces"),
        ({BASE: "http://c:4318/otlp/"}, "http://c:4318/otlp/v1/traces"),
        ({WHOLE: "http://t:4318/here"}, "http://t:4318/here"),
        ({BASE: "http://c:4318", WHOLE: "http://t:4318/here"}, "http://t:4318/here"),
        ({BASE: "http://c:4318", "OTEL_SDK_DISABLED": "True"}, None),
        ({BASE: "http://c:4318", "OTEL_TRACES_EXPORTER": "none"}, None),
        ({BASE: "http://c:4318", "OTEL_TRACES_EXPORTER": "otlp"}, "http://c:4318/v1/traces"),
        ({BASE: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, None),
        (
            {
                BASE: "http://c:4318",
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            },
            "http://c:4318/v1/traces",
        ),
    ],
)
def test_the_standard_variables_choose_where_traces_go(environ: dict[str, str], endpoint: str | None) -> None:
    assert traces_endpoint(load_settings(environ)) == endpoint


def test_a_whole_address_that_is_none_is_refused_without_being_shown() -> None:
    with pytest.raises(SettingsError, match=f"^{WHOLE} cannot be used; write an address such as") as refused:
        traces_endpoint(load_settings({WHOLE: "collector/key-1"}))

    assert "key-1" not in str(refused.value)


def test_an_unsupported_protocol_is_reported_with_the_supported_one(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        tracing = open_tracing(load_settings({BASE: "http://c:4317", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}), role="x")

    [line] = caplog.records
    shown: Any = line
    assert tracing is NO_TRACING
    assert (line.getMessage(), shown.protocol) == ("traces_off", "grpc")
    assert shown.use == "OTEL_EXPORTER_OTLP_PROTOCOL=http/protobuf"


def test_a_variable_that_the_sdk_cannot_use_keeps_no_role_from_starting(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "0")

    assert open_tracing(load_settings({BASE: "http://127.0.0.1:9"}), role="x") is NO_TRACING
    assert [record.getMessage() for record in caplog.records] == ["traces_off"]


@pytest.mark.parametrize(
    ("value", "is_wanted"), [("", False), ("false", False), ("True", True), ("span_only", True), ("event_only", False)]
)
def test_content_is_wanted_only_by_the_standards_switch(value: str, is_wanted: bool) -> None:
    environ = {"OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT": value}

    assert is_content_wanted(Settings(environ=environ)) is is_wanted
