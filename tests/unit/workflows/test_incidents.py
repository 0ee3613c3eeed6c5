"""Incidents: what a record keeps of an error of the package's own code."""

import json

import pytest

from workflows.chat.incidents import MAX_MESSAGE, MAX_TRACEBACK, Incident, incident_of
from workflows.context.redaction import HIDDEN, Redactor

SECRET = "secret-value-9b1c"
HIDING = Redactor([SECRET])


def caught(error: BaseException) -> Incident:
    try:
        raise error
    except BaseException as raised:  # noqa: BLE001 -- whatever it is
        return incident_of(raised, where="tool look", agent="A", turn=2)


def test_an_incident_says_where_it_was_and_what_happened() -> None:
    incident = caught(ValueError("no")).kept(HIDING.text)

    assert (incident.where, incident.type, incident.message) == ("tool look", "ValueError", "no")
    assert (incident.agent, incident.turn) == ("A", 2)
    assert incident.traceback.endswith("ValueError: no\n")
    assert Incident.from_document(json.loads(json.dumps(incident.as_document()))) == incident


@pytest.mark.parametrize("before", range(MAX_MESSAGE - len(SECRET), MAX_MESSAGE + 1, 4))
def test_a_hidden_value_is_taken_out_before_the_message_is_cut(before: int) -> None:
    incident = caught(ValueError("x" * before + SECRET)).kept(HIDING.text)

    assert "secret" not in incident.message
    assert len(incident.message) <= MAX_MESSAGE


@pytest.mark.parametrize("after", range(MAX_TRACEBACK - len(SECRET) - 1, MAX_TRACEBACK, 4))
def test_a_hidden_value_is_taken_out_before_the_traceback_is_cut(after: int) -> None:
    incident = caught(ValueError(SECRET + "x" * after)).kept(HIDING.text)

    assert "9b1c" not in incident.traceback
    assert len(incident.traceback) <= MAX_TRACEBACK + 2


def test_hidden_values_in_a_chain_of_errors_are_taken_out() -> None:
    try:
        try:
            raise KeyError(SECRET)
        except KeyError as first:
            raise type(SECRET, (ValueError,), {})("then") from first
    except ValueError as error:
        incident = incident_of(error, where=SECRET).kept(HIDING.text)

    assert SECRET not in str(incident)
    assert (incident.where, incident.type) == (HIDDEN, HIDDEN)


class Broken(Exception):  # noqa: N818 -- as a package may name it
    def __str__(self) -> str:
        raise OSError


def test_what_no_store_takes_is_replaced() -> None:
    incident = caught(ValueError("half \ud83d")).kept(HIDING.text)

    assert incident.message == "half ?"
    incident.traceback.encode()
    assert caught(Broken()).kept(HIDING.text).message == "(its text cannot be read)"
