"""The agent as its hooks see it: for one turn, with the names that hooks written for classic AG2 use."""

from typing import Any

from workflows.context.context_variables import ContextVariables
from workflows.package.models import Agent

CHAT_MANAGER = "chat_manager"  # whom AG2's agents send to in a group chat


class HookedAgent:
    """Its system message is what this turn is asked with. Hooks may keep attributes of their own on it."""

    def __init__(self, spec: Agent, system_message: str, context: ContextVariables) -> None:
        self.name = spec.name
        self.description = spec.description
        self.llm_config: dict[str, Any] = {}
        self._context = context
        # The form in which AG2 keeps it; hooks that know it change it in place.
        self._oai_system_message: list[dict[str, Any]] = [{"role": "system", "content": system_message}]

    @property
    def system_message(self) -> Any:
        return self._oai_system_message[0]["content"]

    @system_message.setter
    def system_message(self, text: Any) -> None:
        self._oai_system_message[:] = [{"role": "system", "content": text}]

    _system_message = system_message

    def update_system_message(self, system_message: str) -> None:
        self.system_message = system_message

    @property
    def context_variables(self) -> ContextVariables:
        """The live ones."""
        return self._context

    @context_variables.setter
    def context_variables(self, values: Any) -> None:
        if values is not self._context:
            self._context.update(values)

    _context_variables = context_variables

    def __repr__(self) -> str:
        return f"HookedAgent({self.name})"


class ChatParticipant:
    """Who else hooks are told of: the sender of a message, its recipient."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name
