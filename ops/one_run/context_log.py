"""The context in the log: what was loaded, and with CONTEXT_VERBOSE_DEBUG=1 values and changes, as a worker logs it."""

import logging
from collections.abc import Mapping
from typing import Any

from ops.one_run.plan import Plan
from workflows.context.values.log_previews import ContextPreview, preview_values

log = logging.getLogger(__name__)


class ContextLog:
    def __init__(self, plan: Plan) -> None:
        self._is_verbose = plan.around.settings.verbose_debug
        self._hidden = plan.around.redactor.redact_data
        self._shown = ContextPreview({})
        facts = plan.facts
        self._labels = {"run_id": facts.run_id, "app_id": facts.app_id, "workflow": facts.workflow}

    def log_loaded(self, values: Mapping[str, Any]) -> None:
        shown = {"values": preview_values(self._hidden(dict(values)))} if self._is_verbose else {}
        log.info("context_loaded", extra={**self._labels, "names": sorted(values), **shown})

    def begin(self, context: Mapping[str, Any]) -> None:
        """Notes what an attempt begins with, hidden values taken out, as the turns' changes have them."""
        if self._is_verbose:
            self._shown = ContextPreview(context)

    def log_changes(self, number: int, changes: Mapping[str, Any]) -> None:
        if self._is_verbose and changes:
            changed = self._shown.describe_changes(changes)
            log.info("context_changed", extra={**self._labels, "turn": number, "changes": changed})
