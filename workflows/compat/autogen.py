"""The context's class, under the name of the library that the other runtime takes it from."""

from workflows.context.context_variables import ContextVariables

__all__ = ["ContextVariables"]
