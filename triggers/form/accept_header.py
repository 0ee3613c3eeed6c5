"""The Accept header: whether a client prefers an HTML page to JSON."""

from starlette.requests import Request

_DEFAULT_WEIGHT = 1.0


def is_page_requested(request: Request) -> bool:
    return is_html_preferred(request.headers.get("accept", ""))


def is_html_preferred(accept: str) -> bool:
    """Browsers name text/html.

    A client that accepts anything, or both alike, gets JSON.
    """
    weights = dict(_parse_weight(part) for part in accept.lower().split(","))
    html = max(weights.get("text/html", 0), weights.get("application/xhtml+xml", 0))
    json = max(weights.get(kind, 0) for kind in ("application/json", "application/*", "*/*"))
    return html > json


def _parse_weight(part: str) -> tuple[str, float]:
    kind, *parameters = (piece.strip() for piece in part.split(";"))
    for parameter in parameters:
        name, _, value = parameter.partition("=")
        if name.strip() == "q":
            try:
                return kind, float(value)
            except ValueError:
                return kind, 0
    return kind, _DEFAULT_WEIGHT
