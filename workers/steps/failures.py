"""Failures: which outcome an exception means that ended the work on a run."""

import logging
from collections.abc import Mapping
from typing import Any

from workflows.chat.chat_errors import ChatError
from workflows.chat.history.checkpoint import CheckpointError
from workflows.chat.package_code.incidents import error_text
from workflows.context.documents.document_access import WriteRefusedError, WriteTooSlowError
from workflows.context.reads.missing_values import ContextError, ContextUnavailableError
from workflows.outcome import Outcome, OutcomeError, OutcomeKind

log = logging.getLogger(__name__)


def outcome_of(error: BaseException, labels: Mapping[str, Any]) -> Outcome:
    """`labels` say whose run it is, where nobody foresaw the error: its traceback goes to the log."""
    if isinstance(error, ChatError):
        return error.outcome()
    # Another attempt, or a newer worker, may do it.
    if isinstance(error, ContextUnavailableError | WriteTooSlowError | CheckpointError):
        return failed(error, transient=True)
    if not isinstance(error, ContextError | WriteRefusedError):
        log.error("run_crashed", extra=dict(labels), exc_info=error)
    return failed(error)


def failed(error: BaseException, *, transient: bool = False) -> Outcome:
    words = error_text(error)
    told = OutcomeError(type(error).__name__, words)
    return Outcome(OutcomeKind.PACKAGE_ERROR, words, told, transient=transient)
