"""Wanted: whether traces are, where they go and with what in them, as the variables of the OpenTelemetry standard say.

Those that are not looked at here (headers, sampler, timeouts, resource attributes) the SDK reads itself.
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
    """The whole address; None where no traces are wanted."""
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
        # Often said for all programs of a machine: no reason not to start.
        log.warning("traces_off", extra={"protocol": protocol, "use": f"OTEL_EXPORTER_OTLP_PROTOCOL={PROTOCOL}"})
        return None
    return endpoint


def _read_traces_endpoint(settings: Settings) -> str | None:
    try:
        written = settings.environ.get(TRACES_ENDPOINT_VARIABLE)
        return traces_url(written) if written else None
    except ValueError as error:
        raise SettingsError(f"{TRACES_ENDPOINT_VARIABLE} cannot be used; write {error}") from None


def is_content_wanted(settings: Settings) -> bool:
    return _read_variable(settings, "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT") in _WITH_CONTENT


def _read_variable(settings: Settings, variable: str) -> str:
    return settings.environ.get(variable, "").strip().lower()
