"""UI responses: what a trigger answers in advance for people, by the tool that asks them."""

from typing import Annotated, Any

from pydantic import AfterValidator


def _check_literal(answers: Any) -> Any:
    """Known before anything happens, so no part of it can be an expression."""
    if isinstance(answers, dict | list):
        for item in answers.values() if isinstance(answers, dict) else answers:
            _check_literal(item)
    elif isinstance(answers, str) and answers.startswith("="):
        raise ValueError("answers are literal values; leave out the = at the beginning")
    return answers


UIResponses = Annotated[dict[str, dict[str, Any]], AfterValidator(_check_literal)]
