"""A sender that repeats batches until they are acknowledged."""

import threading
import uuid
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.errors import UnavailableError
from tests.oracle.stored_points import stored_points
from tests.support.traffic import Traffic


class Sender:
    """Sends traffic from a thread; each point of ``acknowledged`` must be stored exactly once.

    ``ca``: the authorities of the agent's certificate, if it has one.
    """

    def __init__(
        self, url: str, traffic: Traffic, token: str | None = None, ca: Path | None = None
    ) -> None:
        self.acknowledged: list[Point] = []
        self._agent = AgentClient(url, token=token, ca=ca)
        self._traffic = traffic
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._send, daemon=True)

    def __enter__(self) -> "Sender":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        self._thread.join(60)
        assert not self._thread.is_alive()

    def _send(self) -> None:
        for batch in self._traffic.batches(seconds=3600):
            key = str(uuid.uuid4())
            while True:
                try:
                    self._agent.put(batch, idempotency_key=key)
                except UnavailableError:
                    continue
                break
            self.acknowledged += batch
            if self._stopped.is_set():
                return


def check_stored(senders: Iterable[Sender], agents: Iterable[AgentClient], metric: str) -> int:
    """Assert that agents have stored each acknowledged point once, and no other points.

    Returns the number of these points. ``metric``: the only metric of the senders.
    """
    sent = Counter(
        (point.entity, point.ts, point.value) for each in senders for point in each.acknowledged
    )
    stored = Counter(
        (row["entity"], row["ts"], row["value"])
        for agent in agents
        for row in stored_points(agent, metric).to_pylist()
    )
    assert stored == sent
    return sent.total()
