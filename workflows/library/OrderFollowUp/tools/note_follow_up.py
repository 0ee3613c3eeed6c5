"""Notes the kind of message to the customer. In your own package, send it from here."""

from typing import Annotated, Any, Literal


async def note_follow_up(
    kind: Annotated[Literal["thank_you", "apology", "question"], "what the message is"],
    context_variables: Any = None,
) -> str:
    if context_variables is not None:
        context_variables.set("follow_up_kind", kind)
    return f"noted: {kind}"
