"""Store errors: whether MongoDB is away for now, or refuses this very write and would again."""

from pymongo.errors import ConnectionFailure, PyMongoError, WTimeoutError


def store_is_away(error: PyMongoError) -> bool:
    """AutoReconnect, NotPrimary and a failed server selection are all ConnectionFailures."""
    return (
        isinstance(error, ConnectionFailure | WTimeoutError)
        or error.timeout
        or error.has_error_label("RetryableWriteError")
        or error.has_error_label("TransientTransactionError")
    )
