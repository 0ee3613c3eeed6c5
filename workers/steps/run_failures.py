"""Failures: the outcome of a run whose steps raised an exception."""

import asyncio
import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pymongo.errors import PyMongoError

from accounting.infra.store_errors import is_unavailable
from workers.steps.run_execution import EndedEarlyError, RunExecution
from workers.steps.under_lease import clear_cancellation
from workers.store.run import LeaseLostError
from workflows.chat.chat_errors import ChatError
from workflows.chat.history.checkpoint import CheckpointError
from workflows.chat.package_code.incidents import error_text
from workflows.context.documents.document_access import WriteRefusedError, WriteTooSlowError
from workflows.context.reads.missing_values import ContextError, ContextUnavailableError
from workflows.outcome import Outcome, OutcomeError, OutcomeKind

log = logging.getLogger(__name__)

# Objects of a package may raise any exception when they are read. In a worker no signal arrives in the loop's thread.
FAULTS = (Exception, KeyboardInterrupt, SystemExit)


@contextmanager
def failure_as_outcome(run: RunExecution) -> Iterator[None]:
    """Turns exceptions of the steps in the block into the run's outcome.

    A lost lease and an unavailable store are raised: the run has no owner or no store here.
    """
    try:
        yield
    except EndedEarlyError as end:
        run.outcome = end.outcome
    except LeaseLostError:
        raise
    except asyncio.CancelledError:
        lease = run.services.lease
        if lease.cancelled_by(run.claim) is None or lease.is_lost(run.claim):
            raise
        clear_cancellation()
        run.outcome = Outcome(OutcomeKind.CANCELLED, "cancelled")
    except FAULTS as error:
        if isinstance(error, PyMongoError) and is_unavailable(error):
            raise
        run.outcome = outcome_of(error, run.labels)


def outcome_of(error: BaseException, labels: Mapping[str, Any]) -> Outcome:
    """Returns the outcome for an exception.

    The traceback of an unforeseen error goes to the log, with `labels`.
    """
    if isinstance(error, ChatError):
        return error.outcome()
    # Another attempt, or a newer worker, may succeed.
    if isinstance(error, ContextUnavailableError | WriteTooSlowError | CheckpointError):
        return package_error(error, transient=True)
    if not isinstance(error, ContextError | WriteRefusedError):
        log.error("run_crashed", extra=dict(labels), exc_info=error)
    return package_error(error)


def package_error(error: BaseException, *, transient: bool = False) -> Outcome:
    text = error_text(error)
    details = OutcomeError(type(error).__name__, text)
    return Outcome(OutcomeKind.PACKAGE_ERROR, text, details, transient=transient)
