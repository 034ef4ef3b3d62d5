"""The health check of containers: ``health.py PORT…`` reads ``/readyz`` of each service.

The script imports only the standard library, since it runs every few seconds in each container.
"""

import os
import ssl
import sys
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection, HTTPException, HTTPSConnection

_TIMEOUT_S = 4
"""The time of each step: the connection, its TLS, and the answer."""


def main(*ports: int) -> None:
    """Exit with 0 if all services are ready, otherwise with the problems of the others.

    The services are asked at the same time, so a slow service does not delay the others.
    """
    with ThreadPoolExecutor(len(ports)) as pool:
        problems = list(filter(None, pool.map(_problem, ports)))
    if problems:
        sys.exit("\n".join(problems))


def _problem(port: int) -> str:
    """Return why a service is not ready; empty: it is ready."""
    try:
        connection = _connection(port)
        connection.request("GET", "/readyz", headers=_headers(port))
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace")
    except (OSError, HTTPException) as error:
        return f"no answer at port {port}: {error}"
    return "" if answer.status == 200 else f"port {port}: {body}"


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
    main(*map(int, sys.argv[1:]))
