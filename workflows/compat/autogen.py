"""`ContextVariables` under the module name of the other runtime."""

from workflows.context.context_variables import ContextVariables

__all__ = ["ContextVariables"]
