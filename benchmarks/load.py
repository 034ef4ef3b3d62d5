"""One client of the ingest benchmark: ``python -m benchmarks.load URL POINTS SECONDS``.

Prints its requests/s and the p50 of a request in ms. No points: it asks for /healthz.
"""

import http.client
import json
import os
import statistics
import sys
import time
from urllib.parse import urlsplit


def main(url: str, points: int, seconds: float) -> None:
    """Send requests one after the other on one connection."""
    address = urlsplit(url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=30)
    took = []
    began = time.perf_counter()
    while time.perf_counter() - began < seconds:
        body = _body(points)
        sent = time.perf_counter()
        if points:
            connection.request("POST", "/put", body)
        else:
            connection.request("GET", "/healthz")
        answer = connection.getresponse()
        answer.read()
        assert answer.status == 200, answer.status
        took.append(time.perf_counter() - sent)
    print(len(took) / (time.perf_counter() - began), statistics.median(took) * 1000)


def _body(points: int) -> bytes:
    now = time.time_ns() // 1_000_000
    monitoring = [
        {
            "metricID": f"bench.{number % 10}",
            "entityID": f"client-{os.getpid()}",
            "entityType": "bench",
            "val": number * 0.5,
            "timestamp": now,
        }
        for number in range(points)
    ]
    return json.dumps({"monitoring": monitoring}).encode()


main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))
