"""URLs as they may be shown: without passwords."""

import re

from ops.doctor.checks import error_line

_SECRET_OPTION = re.compile(r"(?i)([?&;](?:[^=&;]*(?:password|secret|token)|authMechanismProperties)=)[^&;]*")


def redact_url(url: str) -> str:
    """User names stay; whatever may be a password goes, rather too much than too little."""
    scheme, separator, rest = url.partition("://")
    if not separator:
        return "(not a URL)"
    # The last @: an unescaped password may hold one, and also a slash or a question mark.
    login, at, place = rest.rpartition("@")
    if at:
        user, colon, _ = login.partition(":")
        login = f"{user}:***" if colon else "***"
    shown_place = _SECRET_OPTION.sub(r"\1***", place)
    return f"{scheme}://{login}{at}{shown_place}"


def describe_unreadable_url(url: str, error: Exception) -> str:
    """Why a URL cannot be read; a parser's own words may quote a piece of the password."""
    if "@" in url:
        return f"{redact_url(url)} cannot be read: in a password, characters such as @ : / are written %40 %3A %2F"
    return f"{redact_url(url)}: {error_line(error)}"
