"""The error of servers that cannot be used, embedded or configured."""


class EmbeddedError(Exception):
    """The text is one line for the user: what is wrong and what to do about it."""
