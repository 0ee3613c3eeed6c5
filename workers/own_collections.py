"""Our own collections: what packages neither read nor write, in a database that may also hold users' data."""

OWN_COLLECTIONS = frozenset(
    {"runs", "turns", "usage", "schedules", "streams", "api_keys", "triggers", "budgets", "outbox", "doctor_probes"}
)
SERVER_DATABASES = frozenset({"admin", "local", "config"})


def refusal(database: str, collection: str, *, own_database: str) -> str | None:
    """Why a package may not touch this place; None when it may."""
    if database.lower() in SERVER_DATABASES or collection.startswith("system."):
        return f"{database}.{collection} belongs to the database server"
    if database == own_database and collection in OWN_COLLECTIONS:
        return f"{database}.{collection} belongs to Unattended itself"
    return None
