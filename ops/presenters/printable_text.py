"""Text made safe for terminals, pipes and JSON."""


def to_encodable(text: str) -> str:
    """Escape what UTF-8 cannot encode: JSON may hold half of a surrogate pair, and a file name any byte."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def to_printable(text: str) -> str:
    """Escape line breaks and control characters, so that a terminal acts on none of them."""
    if text.isprintable():  # the usual case, a hundred times as fast
        return text
    return "".join(
        character if character.isprintable() else character.encode("unicode_escape").decode()
        for character in to_encodable(text)
    )
