"""Capped labels: the first so many names as they are, the others as one. Metrics must not grow with what is made at run
time."""

OTHER = "_other"


class CappedLabels:
    def __init__(self, max_labels: int) -> None:
        self._max_labels = max_labels
        self._known: set[str] = set()

    def label_for(self, name: str) -> str:
        if name not in self._known and len(self._known) >= self._max_labels:
            return OTHER
        self._known.add(name)
        return name
