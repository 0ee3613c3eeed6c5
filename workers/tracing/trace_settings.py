"""Trace settings: whether to trace, where to, and with which content.

They follow the variables of the OpenTelemetry standard. The SDK itself reads the others (headers, sampler, timeouts,
resource attributes).
"""

import logging

from workers.setting_values import traces_url
from workers.settings import Settings, SettingsError

log = logging.getLogger(__name__)

PROTOCOL = "http/protobuf"
TRACES_ENDPOINT_VARIABLE = "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
_PATH = "/v1/traces"
_WITH_CONTENT = frozenset({"true", "span_only", "span_and_event"})


def traces_endpoint(settings: Settings) -> str | None:
    """Returns the whole address, or None if tracing is off."""
    base = settings.otlp_endpoint
    endpoint = _read_traces_endpoint(settings) or (base and base.rstrip("/") + _PATH)
    if not endpoint or _read_variable(settings, "OTEL_SDK_DISABLED") == "true":
        return None
    exporters = _read_variable(settings, "OTEL_TRACES_EXPORTER")
    if exporters and "otlp" not in exporters.split(","):
        return None
    specific = _read_variable(settings, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL")
    protocol = specific or _read_variable(settings, "OTEL_EXPORTER_OTLP_PROTOCOL") or PROTOCOL
    if protocol != PROTOCOL:
        # Often set for all programs of a machine, so no reason to refuse the start.
        log.warning("traces_off", extra={"protocol": protocol, "use": f"OTEL_EXPORTER_OTLP_PROTOCOL={PROTOCOL}"})
        return None
    return endpoint


def _read_traces_endpoint(settings: Settings) -> str | None:
    try:
        raw = settings.environ.get(TRACES_ENDPOINT_VARIABLE)
        return traces_url(raw) if raw else None
    except ValueError as error:
        raise SettingsError(f"{TRACES_ENDPOINT_VARIABLE} cannot be used; write {error}") from None


def is_content_wanted(settings: Settings) -> bool:
    return _read_variable(settings, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT") in _WITH_CONTENT


def _read_variable(settings: Settings, variable: str) -> str:
    return settings.environ.get(variable, "").strip().lower()
