"""uvicorn's HTTP protocol without upgrades to another protocol, such as HTTP/2 or WebSocket."""

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol


class PlainProtocol(HttpToolsProtocol):
    """An HTTP protocol that answers a request for another protocol as any other request.

    The parser takes such a request for complete after its head, even if a body follows. So its head
    is parsed twice: the second time without the header Upgrade.
    """

    def parse(self, data: memoryview) -> bool:
        """Parse data; return whether later data of the same read may be parsed.

        Data after a request for another protocol without a body are no request.
        """
        self._unset_keepalive_if_required()
        try:
            while data:
                try:
                    self.parser.feed_data(data)
                    return True
                except HttpParserUpgrade as upgrade:
                    head = self._head_without_upgrade()
                    # A parser reads nothing after a request with ``Connection: close``.
                    self.parser = HttpRequestParser(self)
                    self.parser.set_dangerous_leniencies(lenient_data_after_close=True)
                    self.parser.feed_data(head)
                    if not self.cycle.more_body:
                        return False
                    data = data[upgrade.args[0] :]
        except HttpParserError as error:
            self.send_400_response(str(error))
        return True

    def is_first_parse(self) -> bool:
        """Return whether the head of this request is parsed once more, without Upgrade."""
        return self.parser.should_upgrade() and not self.is_for_proxy()

    def is_for_proxy(self) -> bool:
        """Return whether the request asks for a tunnel; it has no header Upgrade."""
        return self.parser.get_method() == b"CONNECT"

    def _head_without_upgrade(self) -> bytes:
        version = self.parser.get_http_version().encode()
        lines = [b"%b %b HTTP/%b" % (self.parser.get_method(), self.url, version)]
        lines += (b"%b: %b" % header for header in self.headers if header[0] != b"upgrade")
        return b"\r\n".join((*lines, b"", b""))
