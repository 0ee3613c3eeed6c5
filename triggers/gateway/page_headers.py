"""Headers of HTML pages that carry their own style and load nothing."""

import base64
import hashlib
from collections.abc import Mapping


def page_headers(style: str, *, form_action: str = "'none'") -> Mapping[str, str]:
    """Allows this one style, by its hash, and neither scripts nor other hosts."""
    digest = base64.b64encode(hashlib.sha256(style.encode()).digest()).decode()
    return {
        "content-security-policy": (
            f"default-src 'none'; style-src 'sha256-{digest}'; form-action {form_action}; frame-ancestors 'none'; "
            "base-uri 'none'"
        ),
        "x-content-type-options": "nosniff",
        "x-frame-options": "DENY",
        "referrer-policy": "no-referrer",
    }
