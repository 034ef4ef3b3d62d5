"""The MQTT bridge: what a broker passes on under some topics is stored as points.

A message of QoS 1 is acknowledged to the broker only once its points are stored, in a session that
the broker keeps: what comes while the agent, or Ignite, is away waits at the broker.
"""

import asyncio
import hashlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from urllib.parse import SplitResult, unquote, urlsplit

import aiomqtt
import stamina

from mistbow.clock import Clock
from mistbow.errors import InvalidRequestError, MistbowError, TooLargeError, UnavailableError
from mistbow.settings import AgentSettings
from mistbow.tasks import end
from mistbow.telemetry import get_logger
from mistbow.tls import client_context
from mistbow.topics import template_of
from storage_agent import metrics
from storage_agent.agent import Agent
from storage_agent.ingest.payloads import BadMessageError, points_of
from storage_agent.monitoring.bodies import PutBody

log = get_logger(__name__)

_AT_ONCE = 500
_MOST_WAITING = 20_000
"""Messages in memory; a flood of QoS 0 beyond that is dropped."""
_KEEPALIVE_S = 15
_WAIT_MAX_S = 5.0
_GOOD_S = 60.0
"""A connection that lasted so long ended for a reason of its own."""
_TELL_S = 10.0
_MOST_TOPIC = 200


class Bridge:
    """Follows a broker for as long as it runs; nothing that comes from there ends it."""

    def __init__(self, agent: Agent, settings: AgentSettings, url: str, clock: Clock) -> None:
        self._agent = agent
        self._settings = settings
        self._broker = urlsplit(url)
        self._clock = clock
        self._templates = [template_of(text) for text in settings.topic_templates]
        self._complaints = _Complaints()
        self._away = ""
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to follow the broker, in the background."""
        self._running = asyncio.create_task(self._run(), name="MQTT bridge")

    async def close(self) -> None:
        """Stop; the broker keeps what is not acknowledged."""
        if self._running is not None:
            await end([self._running])

    async def _run(self) -> None:
        while True:
            async for attempt in stamina.retry_context(
                on=Exception, attempts=None, timeout=None, wait_initial=0.2, wait_max=_WAIT_MAX_S
            ):
                with attempt:
                    await self._follow_for_long()

    async def _follow_for_long(self) -> None:
        """Follow until something breaks; raises only if that was soon, for the next try to wait."""
        begin = time.monotonic()
        try:
            await self._follow()
        except Exception as error:
            self._tell_away(error)
            if time.monotonic() - begin < _GOOD_S:
                raise
        finally:
            metrics.MQTT_CONNECTED.set(0)

    async def _follow(self) -> None:
        if waiting := await self._agent.waiting_for():
            raise UnavailableError(f"the agent waits for {', '.join(waiting)}")
        # A new client each time: the queue of an old one has what the broker will send again.
        client = _client(self._broker, self._settings)
        async with client:
            topics = [(template.subscription, 1) for template in self._templates]
            granted = await client.subscribe(topics)
            if any(code.is_failure for code in granted if not isinstance(code, int)):
                raise UnavailableError("the broker refuses the subscription to some topics")
            metrics.MQTT_CONNECTED.set(1)
            log.info("the MQTT broker is followed", broker=self._address)
            self._away = ""
            await self._store_all(client)

    async def _store_all(self, client: aiomqtt.Client) -> None:
        messages = client.messages
        overrun = False
        async for first in messages:
            overrun = overrun or len(messages) >= _MOST_WAITING - 1
            batch = [first]
            while len(messages) and len(batch) < _AT_ONCE:
                batch.append(await anext(messages))
            await self._store(client, batch)
            if overrun and not len(messages):
                # What was dropped and is of QoS 1 comes again with a new connection.
                raise UnavailableError("messages come faster than they are stored")

    async def _store(self, client: aiomqtt.Client, batch: Sequence[aiomqtt.Message]) -> None:
        outcomes = await asyncio.gather(*map(self._put, batch), return_exceptions=True)
        failed = None
        for message, outcome in zip(batch, outcomes, strict=True):
            if outcome is None:
                # aiomqtt has no call for this, and nothing of its own that it would confuse.
                client._client.ack(message.mid, message.qos)
            else:
                failed = outcome
        if failed is not None:
            raise failed

    async def _put(self, message: aiomqtt.Message) -> None:
        """Store a message's points; a message that never can be stored is counted and told."""
        topic = message.topic.value
        if message.retain:
            # The last value from before: when it was measured is not known, or it was stored then.
            metrics.REFUSED_POINTS.labels("mqtt", "retained").inc()
            return
        try:
            found = points_of(topic, message.payload, self._templates, self._clock())
            # A message that comes again is stored once if it can be told from a new equal one.
            key = _key(topic, message.payload) if found.timed else None
            await self._agent.put(PutBody(found.items), key)
            metrics.INGESTED_POINTS.labels("mqtt").inc(len(found.items))
        except BadMessageError as error:
            self._refuse(topic, error.reason, str(error))
        except (InvalidRequestError, TooLargeError) as error:
            self._refuse(topic, "payload", error.message)

    def _refuse(self, topic: str, reason: str, what: str) -> None:
        metrics.REFUSED_POINTS.labels("mqtt", reason).inc()
        self._complaints.tell(topic, reason, what)

    def _tell_away(self, error: Exception) -> None:
        """Log why the broker is not followed, once and not at each try."""
        if str(error) == self._away:
            return
        self._away = str(error)
        if isinstance(error, aiomqtt.MqttError | MistbowError | OSError):
            log.warning("the MQTT broker is not followed", broker=self._address, error=str(error))
        else:
            log.error("the MQTT broker is not followed", broker=self._address, exc_info=error)

    @property
    def _address(self) -> str:
        return f"{self._broker.hostname}:{_port(self._broker)}"


def running_bridge(agent: Agent, settings: AgentSettings, clock: Clock) -> Bridge | None:
    """Start the bridge to the broker of the settings, if they name one."""
    if settings.mqtt_url is None:
        return None
    bridge = Bridge(agent, settings, settings.mqtt_url.get_secret_value(), clock)
    bridge.start()
    return bridge


@dataclass(slots=True)
class _Complaints:
    """Logs of bad messages, not more than one in ``_TELL_S`` seconds."""

    told: float = -_TELL_S
    untold: int = 0

    def tell(self, topic: str, reason: str, what: str) -> None:
        """Log a bad message, or count it for the next one that is logged."""
        if time.monotonic() - self.told < _TELL_S:
            self.untold += 1
            return
        log.warning(
            "bad MQTT message",
            topic=topic[:_MOST_TOPIC],
            reason=reason,
            what=what,
            others_before=self.untold,
        )
        self.told, self.untold = time.monotonic(), 0


def _client(broker: SplitResult, settings: AgentSettings) -> aiomqtt.Client:
    client = aiomqtt.Client(
        broker.hostname or "",
        _port(broker),
        username=None if broker.username is None else unquote(broker.username),
        password=None if broker.password is None else unquote(broker.password),
        # The broker keeps the session by this name.
        identifier=f"mistbow-{settings.site}-{settings.node}",
        clean_session=False,
        keepalive=_KEEPALIVE_S,
        max_queued_incoming_messages=_MOST_WAITING,
        tls_context=client_context(settings.tls_ca) if broker.scheme == "mqtts" else None,
    )
    # paho, below aiomqtt, would acknowledge a message when it arrives.
    client._client.manual_ack_set(True)
    return client


def _port(broker: SplitResult) -> int:
    return broker.port or (8883 if broker.scheme == "mqtts" else 1883)


def _key(topic: str, payload: bytes) -> str:
    digest = hashlib.sha256(topic.encode() + b"\0" + payload)
    return f"mqtt/{digest.hexdigest()}"
