"""A sender that repeats batches until they are acknowledged."""

import threading
import uuid

from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.errors import UnavailableError
from tests.support.traffic import Traffic


class Sender:
    """Sends traffic from a thread; each point of ``acknowledged`` must be stored exactly once."""

    def __init__(self, url: str, traffic: Traffic, token: str | None = None) -> None:
        self.acknowledged: list[Point] = []
        self._agent = AgentClient(url, token=token)
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
