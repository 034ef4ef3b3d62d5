"""The health check of containers: ``health.py PORT…`` reads ``/readyz`` of each service.

The script imports only the standard library, since it runs every few seconds in each container.
"""

import os
import ssl
import sys
import threading
import time
from http.client import HTTPConnection, HTTPException, HTTPSConnection

_PATIENCE_S = 4.0
"""The time of the whole check. After 5 s, Docker and Kubernetes kill it, and its text is lost."""


def main(*ports: int, patience_s: float = _PATIENCE_S) -> None:
    """Exit with 0 if all services are ready, otherwise with the problems of the others.

    The services are asked at the same time, so a slow service does not delay the others. All steps
    together, which are the connection, its TLS and the answer, may take ``patience_s``.
    """
    deadline = time.monotonic() + patience_s
    problems = {port: f"no answer at port {port} within {patience_s:g} s" for port in ports}

    def ask(port: int) -> None:
        problems[port] = _problem(port, patience_s)

    # Daemons: the end of the script does not wait for slow services.
    threads = [threading.Thread(target=ask, args=(port,), daemon=True) for port in ports]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.monotonic()))
    if found := list(filter(None, problems.values())):
        sys.exit("\n".join(found))


def _problem(port: int, timeout_s: float) -> str:
    """Return why a service is not ready; empty: it is ready. ``timeout_s``: of a single step."""
    try:
        connection = _connection(port, timeout_s)
        connection.request("GET", "/readyz", headers=_headers(port))
        answer = connection.getresponse()
        body = answer.read().decode(errors="replace")
    except (OSError, HTTPException) as error:
        return f"no answer at port {port}: {error}"
    return "" if answer.status == 200 else f"port {port}: {body}"


def _connection(port: int, timeout_s: float) -> HTTPConnection:
    if "MISTBOW_TLS_CERT" not in os.environ:
        return HTTPConnection("127.0.0.1", port, timeout=timeout_s)
    context = ssl.create_default_context(cafile=os.environ.get("MISTBOW_TLS_CA"))
    # The certificate names the service as others reach it, not loopback.
    context.check_hostname = False
    return HTTPSConnection("127.0.0.1", port, timeout=timeout_s, context=context)


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
