"""The MQTT bridge, which stores the messages of subscribed topics as points.

The bridge acknowledges a message of QoS 1 after the points in the message were stored. The session
is persistent, so the broker retains messages that are published while the agent or Ignite is away.
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol, cast
from urllib.parse import SplitResult, unquote, urlsplit

import aiomqtt
import stamina

from mistbow.client.agent_model import Point
from mistbow.clock import Clock
from mistbow.errors import InvalidRequestError, MistbowError, TooLargeError, UnavailableError
from mistbow.runtime.tasks import cancel_and_wait
from mistbow.telemetry import get_logger
from mistbow.timestamps import Timestamps
from mistbow.tls import client_context
from storage_agent import metrics
from storage_agent.http.decode import decode_beside
from storage_agent.http.points import PutBody
from storage_agent.ingest.mqtt_limits import MessageQueue, bound_packets
from storage_agent.ingest.payloads import BadMessageError, MessagePoints, parse_message
from storage_agent.log_limit import LogLimit
from storage_agent.mqtt_topics import template_of
from storage_agent.request_key import RequestKey
from storage_agent.settings import AgentSettings

log = get_logger(__name__)

_MAX_BATCH = 500
_MAX_BATCH_BYTES = 4 * 2**20
_MAX_QUEUED = 20_000
"""The maximum number of messages in memory; further messages of QoS 0 are dropped."""
_MAX_HEADER_BYTES = 2**17
"""An upper bound of the bytes of a packet without its payload: the topic has at most 64 KiB."""
_KEEPALIVE_S = 15
_MAX_BACKOFF_S = 5.0
_STABLE_S = 60.0
"""The minimum duration (s) of a connection that resets the pauses between connections."""
_MAX_TOPIC_LENGTH = 200


class PointSink(Protocol):
    """The methods of the agent that the bridge calls to store points."""

    async def waiting_for(self) -> list[str]:
        """Return the conditions that must be met before points can be stored."""
        ...

    async def put(self, body: PutBody, key: RequestKey | None) -> object:
        """Store all points of a body, or none of them; ``key``: the idempotency key or None."""
        ...

    def accepts_attributes(self, point: Point) -> bool:
        """Return whether the attributes of a point do not exceed the allowed size."""
        ...


class MqttBridge:
    """Subscribes to topics of a broker, and stores the points in the messages, until ``close``."""

    def __init__(self, sink: PointSink, settings: AgentSettings, url: str, clock: Clock) -> None:
        self._sink = sink
        self._settings = settings
        self._broker = urlsplit(url)
        self._clock = clock
        self._templates = [template_of(text) for text in settings.topic_templates]
        self._timestamps = Timestamps(settings.timestamp_unit)
        self._rejections = _RejectionLog()
        self._logged_error = ""
        self._running: asyncio.Task[None] | None = None
        self._connected = metrics.MQTT_CONNECTED.labels(self._address)

    def start(self) -> None:
        """Start a background task that subscribes to the topics and stores the points."""
        self._running = asyncio.create_task(self._run(), name="MQTT bridge")

    async def close(self) -> None:
        """Disconnect from the broker, which retains the messages that are not acknowledged."""
        if self._running is not None:
            await cancel_and_wait([self._running])

    async def _run(self) -> None:
        while True:
            async for attempt in stamina.retry_context(
                on=Exception, attempts=None, timeout=None, wait_initial=0.2, wait_max=_MAX_BACKOFF_S
            ):
                with attempt:
                    await self._subscribe_until_error()

    async def _subscribe_until_error(self) -> None:
        """Subscribe and store points until an error occurs, and log the error.

        If the connection lasted less than ``_STABLE_S``, raises the error, so that the caller makes
        a pause before the next connection.
        """
        begin = time.monotonic()
        try:
            await self._subscribe()
        except Exception as error:
            self._log_error(error)
            if time.monotonic() - begin < _STABLE_S:
                raise
        finally:
            self._connected.set(0)

    async def _subscribe(self) -> None:
        if waiting := await self._sink.waiting_for():
            raise UnavailableError(f"the agent waits for {', '.join(waiting)}")
        # A new client each time: the broker sends the queued messages of an old client again.
        client = _client(self._broker, self._settings)
        async with client:
            topics = [(template.subscription, 1) for template in self._templates]
            granted = await client.subscribe(topics)
            failures = [not isinstance(code, int) and code.is_failure for code in granted]
            rejected = [t for (t, _), failed in zip(topics, failures, strict=False) if failed]
            if rejected:
                raise UnavailableError(
                    f"the broker rejected the subscription to {', '.join(rejected)}",
                    hint="Permit the agent's user to read these topics, at the broker.",
                )
            self._connected.set(1)
            log.info("mqtt_broker_connected", broker=self._address)
            self._logged_error = ""
            await self._store_all(client)

    async def _store_all(self, client: aiomqtt.Client) -> None:
        messages, queue = client.messages, cast(MessageQueue, client._queue)
        async for first in messages:
            batch, size = [first], len(first.payload)
            while len(messages) and len(batch) < _MAX_BATCH and size < _MAX_BATCH_BYTES:
                batch.append(await anext(messages))
                size += len(batch[-1].payload)
            await self._store(client, batch)
            if queue.has_overrun and not len(messages):
                # The broker sends dropped messages of QoS 1 again after a reconnect.
                raise UnavailableError("messages arrive faster than they are stored")

    async def _store(self, client: aiomqtt.Client, batch: Sequence[aiomqtt.Message]) -> None:
        outcomes = await asyncio.gather(*map(self._put, batch), return_exceptions=True)
        failed = None
        for message, outcome in zip(batch, outcomes, strict=True):
            if outcome is None:
                # aiomqtt has no public call for this, and no state of its own that it would break.
                client._client.ack(message.mid, message.qos)
            else:
                failed = outcome
        if failed is not None:
            raise failed

    async def _put(self, message: aiomqtt.Message) -> None:
        """Store the valid points of a message; count and log the invalid ones."""
        topic = message.topic.value
        if message.retain:
            # A retained message has no time, or was stored when it was published.
            metrics.REFUSED_POINTS.labels("mqtt", "retained").inc()
            return
        try:
            message_points = await self._read(topic, message.payload)
            # With timestamps, an equal message is a redelivery, and is stored once.
            key = _key(topic, message.payload) if message_points.timed else None
            await self._sink.put(PutBody(message_points.points), key)
            metrics.INGESTED_POINTS.labels("mqtt").inc(len(message_points.points))
            for rejected in message_points.rejected:
                self._reject(topic, rejected.reason, str(rejected))
        except BadMessageError as error:
            self._reject(topic, error.reason, str(error))
        except (InvalidRequestError, TooLargeError) as error:
            self._reject(topic, "payload", error.message)

    async def _read(self, topic: str, payload: bytes) -> MessagePoints:
        """Return the points of a message; a long payload is decoded in a thread."""
        if len(payload) > self._settings.max_body_bytes:
            problem = f"the payload has more than {self._settings.max_body_bytes} bytes"
            raise BadMessageError("payload", problem)
        now, max_points = self._clock(), self._settings.max_points
        return await decode_beside(
            len(payload),
            lambda: parse_message(
                topic,
                payload,
                self._templates,
                now,
                self._timestamps,
                max_points,
                self._sink.accepts_attributes,
            ),
        )

    def _reject(self, topic: str, reason: str, problem: str) -> None:
        metrics.REFUSED_POINTS.labels("mqtt", reason).inc()
        self._rejections.log(topic, reason, problem)

    def _log_error(self, error: Exception) -> None:
        """Log an error of the connection, unless an equal error was the last that was logged."""
        if str(error) == self._logged_error:
            return
        self._logged_error = str(error)
        if isinstance(error, aiomqtt.MqttError | MistbowError | OSError):
            log.warning("mqtt_broker_unavailable", broker=self._address, error=str(error))
        else:
            log.error("mqtt_bridge_failed", broker=self._address, exc_info=error)

    @property
    def _address(self) -> str:
        return f"{self._broker.hostname}:{_port(self._broker)}"


def start_bridge(sink: PointSink, settings: AgentSettings, clock: Clock) -> MqttBridge | None:
    """Start and return the bridge to the broker in the settings; None: no broker is set."""
    if settings.mqtt_url is None:
        return None
    bridge = MqttBridge(sink, settings, settings.mqtt_url.get_secret_value(), clock)
    bridge.start()
    return bridge


@dataclass(slots=True)
class _RejectionLog:
    """Logs rejected messages, at most one in each interval of the limit."""

    limit: LogLimit = field(default_factory=LogLimit)

    def log(self, topic: str, reason: str, problem: str) -> None:
        """Log a rejected message; if another was logged shortly before, only count the message."""
        if (suppressed := self.limit.permit()) is not None:
            log.warning(
                "mqtt_message_rejected",
                topic=topic[:_MAX_TOPIC_LENGTH],
                reason=reason,
                problem=problem,
                suppressed=suppressed,
            )


def _client(broker: SplitResult, settings: AgentSettings) -> aiomqtt.Client:
    client = aiomqtt.Client(
        broker.hostname or "",
        _port(broker),
        username=None if broker.username is None else unquote(broker.username),
        password=None if broker.password is None else unquote(broker.password),
        # The name of the persistent session at the broker.
        identifier=f"mistbow-{settings.site}-{settings.node}",
        clean_session=False,
        keepalive=_KEEPALIVE_S,
        max_queued_incoming_messages=_MAX_QUEUED,
        queue_type=MessageQueue,
        tls_context=client_context(settings.tls_ca) if broker.scheme == "mqtts" else None,
    )
    # By default paho, below aiomqtt, acknowledges messages on arrival.
    client._client.manual_ack_set(True)
    bound_packets(client._client, settings.max_body_bytes + _MAX_HEADER_BYTES)
    return client


def _port(broker: SplitResult) -> int:
    return broker.port or (8883 if broker.scheme == "mqtts" else 1883)


def _key(topic: str, payload: bytes) -> RequestKey:
    digest = hashlib.sha256(topic.encode() + b"\0" + payload)
    return RequestKey.of_body("mqtt", digest.hexdigest())
