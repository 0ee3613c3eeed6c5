"""What stops the servers from being used, ours or the given ones."""


class EmbeddedError(Exception):
    """The text is one line for the user: what is wrong and what to do about it."""
