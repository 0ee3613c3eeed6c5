"""Multipart bodies: whatever a stranger sends is fields, a refusal or a problem."""

from contextlib import suppress

from hypothesis import example, given
from hypothesis import strategies as st
from starlette.requests import Request

from tests.unit.triggers.property_settings import without_deadline
from triggers.form.form_body import MULTIPART, read_fields
from triggers.gateway.http_problems import ProblemError
from triggers.gateway.request_body import URLENCODED

PARTS = st.sampled_from(
    [
        b"--x",
        b"--",
        b"\r\n",
        b"\n",
        b'Content-Disposition: form-data; name="a"',
        b'Content-Disposition: form-data; name="a"; filename="f"',
        b"Content-Disposition: attachment",
        b"Content-Disposition",
        b": ",
        b"\xff\xfe",
        b"value",
    ]
)


def request_of(content_type: bytes) -> Request:
    return Request({"type": "http", "headers": [(b"content-type", content_type)]})


@without_deadline
@given(pieces=st.lists(PARTS | st.binary(max_size=20)), boundary=st.sampled_from([b"x", b"", b'"x"', b"\xff", b"--"]))
@example(pieces=[b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\nv\r\n--x--\r\n'], boundary=b"x")
async def test_any_multipart_body(pieces: list[bytes], boundary: bytes) -> None:
    request = request_of(b"multipart/form-data; boundary=" + boundary)
    with suppress(ProblemError):
        given_fields = await read_fields(request, MULTIPART, b"".join(pieces))
        assert all(isinstance(value, str) for value in given_fields.values.values())


@without_deadline
@given(st.binary() | st.text("a=&%+;01f").map(str.encode))
async def test_any_urlencoded_body(raw_body: bytes) -> None:
    with suppress(ProblemError):
        given_fields = await read_fields(request_of(URLENCODED.encode()), URLENCODED, raw_body)
        assert all(isinstance(value, str) for value in given_fields.values.values())
