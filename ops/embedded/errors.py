"""What stops the embedded servers from starting."""


class EmbeddedError(Exception):
    """The text is one line for the user: what is wrong and what to do about it."""
