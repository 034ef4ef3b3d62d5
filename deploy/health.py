"""A container's health check: ``health.py PORT`` asks the service there whether it is ready.

Only with Python's own modules: it runs every few seconds in each container.
"""

import os
import ssl
import sys
from http.client import HTTPConnection, HTTPSConnection

_TIMEOUT_S = 4


def main(port: int) -> None:
    """End with code 0 if the service is ready, else with what it says."""
    connection = _connection(port)
    try:
        connection.request("GET", "/readyz", headers=_headers())
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
    # The certificate is for the name by which others reach the service.
    context.check_hostname = False
    return HTTPSConnection("127.0.0.1", port, timeout=_TIMEOUT_S, context=context)


def _headers() -> dict[str, str]:
    file = os.environ.get("MISTBOW_TOKEN_FILE")
    if file is None:
        return {}
    with open(file, encoding="utf-8") as token:
        return {"Authorization": f"Bearer {token.read().strip()}"}


if __name__ == "__main__":
    main(int(sys.argv[1]))
