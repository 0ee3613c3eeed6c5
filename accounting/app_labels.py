"""App labels: a metric shows at most so many apps by name, and the rest as one."""

from collections.abc import Iterable

OTHER = "_other"


class AppLabels:
    """First come, first named: an app keeps its label for the life of the process, so no series jumps."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._named: set[str] = set()

    def learn(self, apps: Iterable[str]) -> None:
        for app in sorted(apps):
            if len(self._named) < self._most:
                self._named.add(app)

    def label(self, app: str) -> str:
        return app if app in self._named else OTHER
