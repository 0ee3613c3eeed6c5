"""What is said to people when a trigger is not there, or cannot be made or changed as they ask.

A trigger whose state does not take it is a RefusedError, as with runs.
"""

from collections.abc import Mapping


class UnknownTriggerError(LookupError):
    """No such trigger, or none that this app may know of."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no trigger {name}")
        self.name = name


class UnknownWorkflowError(LookupError):
    """No package of this name is there to be started."""

    def __init__(self, workflow: str) -> None:
        super().__init__(f"there is no workflow {workflow[:100]}")


class UnfitTriggerError(ValueError):
    """What was given cannot be a trigger, or its event; one sentence for each place in it."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{place}: {said}" if place else said for place, said in problems.items()))
        self.problems = problems


class NotForThisKeyError(PermissionError):
    """Only whoever may act for all apps may do it."""


class EditedMeanwhileError(Exception):
    """Somebody else has edited the trigger since it was read: what was asked would undo that."""

    def __init__(self, id_: str, *, revision: int) -> None:
        super().__init__(f"{id_} was edited meanwhile and has revision {revision} now; read it again, then change it")
        self.revision = revision
