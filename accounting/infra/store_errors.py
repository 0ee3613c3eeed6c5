"""Store errors: those of an outage, which pass, against those of the request itself."""

from pymongo.errors import ConnectionFailure, OperationFailure, PyMongoError, WTimeoutError

# Interruptions, elections, exceeded time, no majority yet, or a cursor that died with its server: these depend on
# the moment, not on the request.
TRANSIENT_CODES = frozenset(
    {6, 7, 43, 50, 64, 89, 91, 112, 134, 175, 189, 237, 262, 9001, 10107, 11600, 11601, 11602, 13435, 13436}
)


def is_unavailable(error: PyMongoError) -> bool:
    """Checks whether a retry may succeed later.

    AutoReconnect, NotPrimary and a failed server selection are all ConnectionFailures.
    """
    if isinstance(error, OperationFailure) and error.code in TRANSIENT_CODES:
        return True
    return (
        isinstance(error, ConnectionFailure | WTimeoutError)
        or error.timeout
        or error.has_error_label("RetryableWriteError")
        or error.has_error_label("TransientTransactionError")
    )
