"""Trigger errors: the trigger is missing, or cannot be created or changed.

A request that the trigger's state does not allow raises RefusedError, as with runs.
"""

from collections.abc import Mapping


class UnknownTriggerError(LookupError):
    """No such trigger, or none that this app may see."""

    def __init__(self, name: str) -> None:
        super().__init__(f"there is no trigger {name}")


class UnknownWorkflowError(LookupError):
    """No started package has this name."""

    def __init__(self, workflow: str) -> None:
        super().__init__(f"there is no workflow {workflow[:100]}")


class UnfitTriggerError(ValueError):
    """An invalid spec or event, with one sentence for each place in it."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{place}: {problem}" if place else problem for place, problem in problems.items()))
        self.problems = problems


class NotForThisKeyError(PermissionError):
    """The key lacks the right: it is for one app only, or may not approve."""


class EditedMeanwhileError(Exception):
    """The trigger was edited since it was read. The change would undo that edit."""

    def __init__(self, id_: str, *, revision: int) -> None:
        super().__init__(f"{id_} was edited meanwhile and has revision {revision} now; read it again, then change it")
