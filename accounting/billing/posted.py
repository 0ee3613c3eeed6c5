"""What became of a post."""

from dataclasses import dataclass

GONE = 410
# Servers that ask for less: their wish is about all that is sent to them, not about one batch.
THROTTLING = frozenset({429, 502, 503, 504})


@dataclass(frozen=True, slots=True)
class PostResult:
    """`status` is None where no answer came. `what` is for people."""

    status: int | None
    description: str
    retry_after_s: float | None = None

    @property
    def is_delivered(self) -> bool:
        return self.status is not None and 200 <= self.status < 300
