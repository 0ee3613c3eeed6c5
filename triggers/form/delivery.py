"""Deliveries: a hidden number in each rendered page, so that a double click or a reload makes one run.

No token guards against another site's page that posts here: such a token protects what a browser adds by itself, a
cookie or a login, and a form has none. Whatever another site can make a visitor send, anybody can send without one.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from typing import Any

from ulid import ULID

from workflows.package.trigger_specs.form import DELIVERY_FIELD

_DELIVERY = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}")


def new_delivery() -> str:
    return str(ULID())


def find_delivery(values: Mapping[str, Any]) -> str | None:
    """None for one that no page of ours has held."""
    delivery = values.get(DELIVERY_FIELD)
    return delivery if isinstance(delivery, str) and _DELIVERY.fullmatch(delivery) else None


def delivery_id(delivery: str, values: Mapping[str, Any]) -> str:
    """With the answers in it: whoever goes back, corrects one and sends again means another run."""
    answers = json.dumps(values, sort_keys=True, ensure_ascii=True).encode()
    return f"page:{delivery}:{hashlib.sha256(answers).hexdigest()[:16]}"
