"""Plain HTTP: requests that ask for another protocol are served as if they did not, as HTTP allows.

Java's client and `curl --http2` send `Upgrade: h2c` with a request and its body. The parser takes everything behind
such a head for the other protocol: the body would be lost, and read as the next request. So the head is parsed again
without the wish.
"""

import httptools
from typing_extensions import override
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

_CONNECT = b"CONNECT"


class PlainHttpProtocol(HttpToolsProtocol):
    is_upgrade_ignored = False  # between the head of such a request and its second parse

    @override
    def data_received(self, data: bytes) -> None:
        self._unset_keepalive_if_required()
        try:
            self.parser.feed_data(data)
        except httptools.HttpParserError:
            self.logger.warning("Invalid HTTP request received.")
            self.send_400_response("Invalid HTTP request received.")
        except httptools.HttpParserUpgrade as upgrade:
            if self.is_upgrade_ignored:
                self._parse_again(data[upgrade.args[0] :])

    @override
    def on_headers_complete(self) -> None:
        self.is_upgrade_ignored = self.parser.should_upgrade() and self.parser.get_method() != _CONNECT
        if not self.is_upgrade_ignored:
            super().on_headers_complete()

    @override
    def on_message_complete(self) -> None:
        if not self.is_upgrade_ignored:
            super().on_message_complete()

    def _parse_again(self, rest: bytes) -> None:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += [b"%b: %b" % header for header in self.headers if header[0] != b"upgrade"]
        self.parser = httptools.HttpRequestParser(self)
        self.parser.set_dangerous_leniencies(lenient_data_after_close=True)  # as the server does
        PlainHttpProtocol.data_received(self, b"\r\n".join([*lines, b"", b""]) + rest)
