"""The MQTT bridge with a real mosquitto, and outages of broker, agent and Ignite."""

import os
import signal
import subprocess
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
import trustme

from ignite_server.ports import free_ports
from ignite_server.server import IgniteServer
from mistbow.client.agent import AgentClient
from storage_agent.settings import AgentSettings
from tests.storage_agent.ingest.conftest import counted, stored
from tests.support.agents import running_agent
from tests.support.conditions import eventually
from tests.support.programs import needs, program, running
from tests.support.services import storage_agent

pytestmark = needs("mosquitto", "mosquitto_pub", "mosquitto_passwd")

NOW = 1_795_262_400_000
CONNECTED = "mistbow_agent_mqtt_connected"


class Broker:
    """A mosquitto broker on a port of its own, which a test starts and stops."""

    def __init__(self, folder: Path, *more: str) -> None:
        (self.port,) = free_ports(1)
        self._folder = folder
        self._running = ExitStack()
        lines = (
            f"listener {self.port} 127.0.0.1",
            "persistence true",
            f"persistence_location {folder}/",
            "user root" if os.geteuid() == 0 else "",
            *(more or ("allow_anonymous true",)),
        )
        (folder / "mosquitto.conf").write_text("\n".join(lines))

    def is_followed(self, agent_url: str) -> bool:
        """Return whether the agent reports a connection to this broker."""
        return bool(counted(agent_url, CONNECTED, broker=f"127.0.0.1:{self.port}"))

    def start(self) -> None:
        argv = ["mosquitto", "-c", str(self._folder / "mosquitto.conf")]
        self._running.enter_context(running(argv, self._folder / "log.txt"))

    def stop(self) -> None:
        self._running.close()

    def publish(self, topic: str, payloads: Iterable[object], *more: str) -> None:
        """Publish one message for each payload; return when the broker has received them."""
        argv = ["mosquitto_pub", "-h", "127.0.0.1", "-p", str(self.port), "-q", "1", "-l"]
        argv += ["-t", topic, *more]
        lines = "".join(f"{payload}\n" for payload in payloads).encode()

        def is_sent() -> bool:
            return subprocess.run(argv, input=lines, timeout=20, check=False).returncode == 0

        eventually(is_sent, what="the broker has the messages")


@pytest.fixture
def broker(processes: None, tmp_path: Path) -> Iterator[Broker]:
    broker = Broker(tmp_path)
    broker.start()
    yield broker
    broker.stop()


def timed(start: int, count: int) -> list[str]:
    return [f'{{"val": {n}, "timestamp": {NOW + n}}}' for n in range(start, start + count)]


def expected(count: int) -> list[tuple[int, float]]:
    return [(NOW + n, float(n)) for n in range(count)]


def test_messages_are_stored_and_rejected_ones_counted(
    own_settings: AgentSettings, broker: Broker
) -> None:
    url = f"mqtt://127.0.0.1:{broker.port}"
    topics = "sensors/{entityID}/{metricID}, plant/{labels.line}/{entityID}/{metricID}, whole"
    settings = own_settings.model_copy(update={"mqtt_topics": topics})
    settings = AgentSettings(**{**settings.model_dump(), "mqtt_url": url})
    broker.publish("sensors/e/q_retained", [1], "-r")
    with running_agent(settings) as agent_url, closing(AgentClient(agent_url)) as client:
        eventually(lambda: broker.is_followed(agent_url), what="the broker is followed")
        kinds = [("mqtt", reason) for reason in ("payload", "retained", "time")]
        name = "mistbow_agent_refused_points_total"

        def refused() -> list[float]:
            return [counted(agent_url, name, source=s, reason=r) for s, r in kinds]

        eventually(lambda: refused()[1] >= 1, what="the retained message is passed over")
        before = refused()
        many = "[" + '{"val": 1},' * 20_000 + "1]"
        broker.publish("sensors/e/q_bad", ["on", '{"val": "x"}', "{", many])
        broker.publish("sensors/e/q_number", [21.5])
        broker.publish("plant/l1/e/q_object", ['{"val": 2, "timestamp": 5}'])
        item = '{"entityID": "e", "metricID": "q_list", "val": 3, "timestamp": %d}'
        fractional = '{"entityID": "e", "metricID": "q_list", "val": 3, "timestamp": 6.5}'
        broker.publish("whole", [f'[{item % 6}, {{"val": "x"}}, {fractional}, {item % 7}]'])
        names = ("q_number", "q_object", "q_list", "q_bad", "q_retained")
        eventually(lambda: len(stored(client, *names)) == 3, what="the good ones are stored")
        found = stored(client, *names)
        assert [value for _, value in found.pop(("q_number", "e"))] == [21.5]
        assert found == {("q_object", "e"): [(5, 2)], ("q_list", "e"): [(6, 3), (7, 3)]}
        eventually(
            lambda: refused() == [before[0] + 5, before[1], before[2] + 1],
            what="the bad ones are counted",
        )


def test_messages_are_stored_once_across_outages(
    ignite: IgniteServer, broker: Broker, tmp_path: Path
) -> None:
    settings = {"node": "n1", "mqtt_url": f"mqtt://127.0.0.1:{broker.port}"}
    with (
        storage_agent(tmp_path, ignite.port, **settings) as agent,
        closing(AgentClient(agent.url)) as client,
    ):

        def arrived(count: int) -> bool:
            return stored(client, "m").get(("m", "e")) == expected(count)

        eventually(lambda: broker.is_followed(agent.url), what="the broker is followed")
        broker.publish("sensors/e/m", timed(0, 10))
        eventually(lambda: arrived(10), what="the first messages are stored")

        broker.stop()
        broker.start()
        broker.publish("sensors/e/m", timed(10, 10))
        eventually(lambda: arrived(20), what="those after the broker's restart are stored")

        assert ignite.pid is not None
        os.kill(ignite.pid, signal.SIGSTOP)
        try:
            broker.publish("sensors/e/m", timed(20, 30))
            agent.kill()
        finally:
            os.kill(ignite.pid, signal.SIGCONT)
        broker.publish("sensors/e/m", timed(50, 100))
        broker.stop()
        broker.start()
        agent.start()
        eventually(lambda: arrived(150), what="those while the agent was away are stored")


def test_bridge_connects_to_late_broker_with_tls_and_password(
    own_settings: AgentSettings, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    certificate = authority.issue_cert("127.0.0.1")
    certificate.cert_chain_pems[0].write_to_path(tmp_path / "cert.pem")
    certificate.private_key_pem.write_to_path(tmp_path / "key.pem")
    passwords = tmp_path / "passwords"
    made = [program("mosquitto_passwd") or "", "-c", "-b", str(passwords), "bridge", "p@ss/word"]
    subprocess.run(made, check=True)
    broker = Broker(
        tmp_path,
        f"password_file {passwords}",
        f"certfile {tmp_path / 'cert.pem'}",
        f"keyfile {tmp_path / 'key.pem'}",
    )
    url = f"mqtts://bridge:p%40ss%2Fword@127.0.0.1:{broker.port}"
    more = {
        "home": tmp_path / "home",
        "mqtt_url": url,
        "tls_ca": tmp_path / "ca.pem",
        "node": "n2",
        "site": "n2",
    }
    settings = AgentSettings(**{**own_settings.model_dump(), **more})
    with running_agent(settings) as agent_url, closing(AgentClient(agent_url)) as client:
        assert not broker.is_followed(agent_url)
        broker.start()
        try:
            eventually(lambda: broker.is_followed(agent_url), what="the broker is followed")
            secrets = ("-u", "bridge", "-P", "p@ss/word", "--cafile", str(tmp_path / "ca.pem"))
            broker.publish("sensors/e/t", [1], *secrets)
            eventually(lambda: stored(client, "t"), what="the message is stored")
        finally:
            broker.stop()
    output = "".join(capfd.readouterr())
    assert "p@ss/word" not in output
    assert "p%40ss" not in output
