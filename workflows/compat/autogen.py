"""`ContextVariables` under the module name that packages of the other runtime import it from."""

from workflows.context.context_variables import ContextVariables

__all__ = ["ContextVariables"]
