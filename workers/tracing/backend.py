"""The backend that traces are sent to, as far as it is listened to: what it answers, and nothing else it says."""

from http import HTTPStatus
from typing import Any

import requests
from typing_extensions import override


class TraceBackend(requests.Session):
    """Never reads a body: a wrong address may send one that does not end, and the sending thread would wait for it.

    Nor goes where it is sent: an exporter takes `moved` for good, and the spans would be lost unsaid.
    """

    answer: int | str | None = None  # the status, or the type of what went wrong

    @override
    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:
        try:
            response = super().send(request, **{**options, "stream": True, "allow_redirects": False})
        except Exception as error:
            self.answer = type(error).__name__
            raise
        response.close()
        self.answer = response.status_code
        if response.status_code >= HTTPStatus.MULTIPLE_CHOICES and response.status_code < HTTPStatus.BAD_REQUEST:
            raise requests.TooManyRedirects(response=response)
        return response
