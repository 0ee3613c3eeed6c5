"""Verification: the schemes by name, as a trigger's `verify.scheme` names them."""

from collections.abc import Mapping

from triggers.webhook import github, standard
from triggers.webhook.signature import SignatureError, Verify

__all__ = ["SCHEMES", "SignatureError", "Verify"]

SCHEMES: Mapping[str, Verify] = {"standard": standard.verify, "github": github.verify}
