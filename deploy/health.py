"""The health check of containers: ``health.py PORT…`` reads ``/readyz`` of each service.

The script imports only the standard library, since it runs every few seconds in each container.
"""

import os
import ssl
import sys
from http.client import HTTPConnection, HTTPSConnection

_TIMEOUT_S = 4


def main(port: int) -> None:
    """Exit with 0 if the service is ready, otherwise with the text of the service's answer."""
    connection = _connection(port)
    try:
        connection.request("GET", "/readyz", headers=_headers(port))
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace")
    except OSError as error:
        sys.exit(f"no answer: {error}")
    if answer.status != 200:
        sys.exit(body)


def _connection(port: int) -> HTTPConnection:
    if "MISTBOW_TLS_CERT" not in os.environ:
        return HTTPConnection("127.0.0.1", port, timeout=_TIMEOUT_S)
    context = ssl.create_default_context(cafile=os.environ.get("MISTBOW_TLS_CA"))
    # The certificate names the service as others reach it, not loopback.
    context.check_hostname = False
    return HTTPSConnection("127.0.0.1", port, timeout=_TIMEOUT_S, context=context)


def _headers(port: int) -> dict[str, str]:
    file = os.environ.get("MISTBOW_TOKEN_FILE")
    if "MISTBOW_IDENTITY_FILE" in os.environ:
        file = f"{os.environ['MISTBOW_HOME']}/probe-{port}.token"
    token = os.environ.get("MISTBOW_TOKEN")
    if file is not None:
        with open(file, encoding="utf-8") as opened:
            token = opened.read().strip()
    return {} if token is None else {"Authorization": f"Bearer {token}"}


if __name__ == "__main__":
    for each in sys.argv[1:]:
        main(int(each))
