"""Reserved collections: our own, which packages neither read nor write. Their database may also hold users' data."""

from workflows.context.documents.query_templates import is_system_collection

RESERVED_COLLECTIONS = frozenset(
    {
        "runs",
        "turns",
        "usage",
        "usage_hours",
        "usage_totals",
        "usage_state",
        "streams",
        "api_keys",
        "idempotency_keys",
        "triggers",
        "budgets",
        "budget_windows",
        "budget_estimates",
        "outbox",
        "outbox_endpoints",
        "metric_labels",
        "console_sessions",
        "doctor_probes",
        "rates",
        "run_rollups",
        "kept_states",
    }
)


def refusal_reason(database: str, collection: str, *, own_database: str) -> str | None:
    """Returns why a package may not use this collection; None if it may."""
    if is_system_collection(database, collection):
        return f"{database}.{collection} belongs to the database server"
    if database == own_database and collection in RESERVED_COLLECTIONS:
        return f"{database}.{collection} belongs to Unattended itself"
    return None
