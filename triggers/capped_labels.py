"""Capped labels: bounds the number of label values of a metric."""

OTHER = "_other"


class CappedLabels:
    """Keeps the first `max_labels` names, and folds all others into one."""

    def __init__(self, max_labels: int) -> None:
        self._max_labels = max_labels
        self._known: set[str] = set()

    def label_for(self, name: str) -> str:
        if name not in self._known and len(self._known) >= self._max_labels:
            return OTHER
        self._known.add(name)
        return name
