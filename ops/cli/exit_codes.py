"""Exit codes of the `unattended` command; success is 0."""

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130
