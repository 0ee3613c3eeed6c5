"""The Accept header, as far as one question goes: does this client prefer a page to JSON?"""

from starlette.requests import Request

_WEIGHTLESS = 1.0


def wants_page(request: Request) -> bool:
    return prefers_html(request.headers.get("accept", ""))


def prefers_html(accept: str) -> bool:
    """A browser names text/html; a client that takes anything, or both alike, gets JSON."""
    weights = dict(_weighted(part) for part in accept.lower().split(","))
    html = max(weights.get("text/html", 0), weights.get("application/xhtml+xml", 0))
    json = max(weights.get(kind, 0) for kind in ("application/json", "application/*", "*/*"))
    return html > json


def _weighted(part: str) -> tuple[str, float]:
    kind, *parameters = (piece.strip() for piece in part.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return kind, float(value)
            except ValueError:
                return kind, 0
    return kind, _WEIGHTLESS
