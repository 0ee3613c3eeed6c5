"""Values of answers, as people write them on the command line and in forms."""

from typing import Any

MAX_NUMBER_DIGITS = 9
MAX_QUESTION_ID_LENGTH = 200


def parse_answer_value(text: str) -> Any:
    """Parse JSON; a text that is no JSON stands for itself.

    The text 7 is written "7", with the quotes.
    """
    from triggers.gateway.http_problems import ProblemError
    from triggers.gateway.request_body import parse_json

    try:
        return parse_json(text.encode("utf-8", "surrogatepass"))
    except ProblemError:
        return text
