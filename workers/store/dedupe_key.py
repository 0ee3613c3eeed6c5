"""The dedupe key: one event of a trigger starts one run of an app; the unique index `one_run_per_event` keeps it so."""

from functools import lru_cache
from urllib.parse import quote


def build_dedupe_key(*, workflow: str, trigger_name: str, trigger_type: str, app_id: str, event_id: str) -> str:
    """Begins with workflow/trigger. The id comes last and the app is quoted, so no two events share a key."""
    return f"{workflow}/{trigger_name}/{trigger_type}/{quote_app_id(app_id)}/{event_id}"


@lru_cache(1024)
def quote_app_id(app_id: str) -> str:
    """Quotes an app id, so that no two apps look alike in a key of several parts."""
    return quote(app_id, safe="")
