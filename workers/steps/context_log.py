"""The context in the log: the names of loaded values; with CONTEXT_VERBOSE_DEBUG=1 values and changes too."""

import logging
from collections.abc import Mapping
from typing import Any

from workers.steps.execution import RunExecution
from workflows.context.values.log_previews import ContextPreview, preview_values

log = logging.getLogger(__name__)


def log_loaded_context(run: RunExecution, values: Mapping[str, Any]) -> None:
    # A worker redacts values in its log. The test of a package shows them.
    hidden, verbose = run.services.redactor.redact_data, run.services.verbose_debug
    shown = {"values": preview_values(hidden(dict(values)))} if verbose else {}
    log.info("context_loaded", extra={**run.labels, "names": sorted(values), **shown})


class ContextChangeLog:
    """Logs the changes of each turn, with the values before and after."""

    def __init__(self, run: RunExecution) -> None:
        self._run = run
        self._is_verbose = run.services.verbose_debug
        self._shown = ContextPreview(run.open_chat.context if self._is_verbose else {})

    def log_changes(self, number: int, changes: Mapping[str, Any]) -> None:
        if self._is_verbose and changes:
            changed = self._shown.describe_changes(changes)
            log.info("context_changed", extra={**self._run.labels, "turn": number, "changes": changed})
