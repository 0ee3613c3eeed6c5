"""Capped labels: the first so many names as they are, the others as one. Metrics must not grow with what is made at run
time."""

OTHER = "_other"


class CappedLabels:
    def __init__(self, most: int) -> None:
        self._most = most
        self._known: set[str] = set()

    def of(self, name: str) -> str:
        if name not in self._known and len(self._known) >= self._most:
            return OTHER
        self._known.add(name)
        return name
