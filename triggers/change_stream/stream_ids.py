"""Stream ids: which stream brings a trigger its events. A stream's id stays the same while its triggers come and go.

`shop` is the stream that most triggers on the database share. What cannot be shared has a stream of its own: other
needs of documents (`shop/full_document=off`), or a pipeline (`shop/Orders/paid`). `unattended.runs` brings what
triggers on the end of other runs wait for. Neither dots nor slashes are in the name of a database.
"""

import re

from triggers.register.trigger import Trigger
from workflows.package.trigger_specs.change import ChangeSpec
from workflows.package.trigger_specs.run_finished import RunFinishedSpec


def stream_id_of(trigger: Trigger, *, own_database: str) -> str | None:
    """None for kinds that no stream brings anything."""
    if isinstance(trigger.spec, RunFinishedSpec):
        return ended_runs_stream_id(own_database)
    if not isinstance(trigger.spec, ChangeSpec):
        return None
    spec = trigger.spec
    if spec.pipeline:
        return f"{spec.database}/{trigger.id}"
    return "/".join((spec.database, *_document_needs(spec)))


def ended_runs_stream_id(own_database: str) -> str:
    return f"{own_database}.runs"


def stream_database(stream: str) -> str:
    return re.split(r"[./]", stream, maxsplit=1)[0]


def _document_needs(spec: ChangeSpec) -> list[str]:
    """`required` is asked for as `when_available`, and looked at here: on the server one document without it would
    end the stream for everybody."""
    documents = {"required": "when_available"}.get(spec.full_document, spec.full_document)
    needs = [] if documents == "update_lookup" else [f"full_document={documents}"]
    return needs if spec.pre_image == "off" else [*needs, "pre_image=when_available"]
