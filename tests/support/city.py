"""The smart city as a fog of containers, for tests and benchmarks: real images, real links."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import duckdb
import pyarrow as pa

from mistbow.client.agent import AgentClient
from mistbow.client.enabler import EnablerClient
from mistbow.errors import MistbowError
from mistbow.fog_emulation import model
from mistbow.fog_emulation.backend import raise_fog
from mistbow.fog_emulation.docker_backend import DockerBackend
from mistbow.fog_emulation.plan import plan
from mistbow.fog_emulation.scenario import Done, run_scenario
from mistbow.fog_emulation.services import load_services
from mistbow.fog_emulation.timetable import timetable

ROOT = Path(__file__).parents[2]
FILE = ROOT / "fogify_scenarios" / "smart_city.yml"
INSIGHTS = ROOT / "examples" / "city.insights"
TOKEN = ROOT / ".mistbow" / "compose" / "token"
SITES = {"cloud": "lan-cloud", "edge-north": "lan-north", "edge-south": "lan-south"}


@dataclass(frozen=True)
class City:
    """The fog that stands, reached from the host by the networks of its sites."""

    backend: DockerBackend
    token: str

    def url(self, node: str, network: str, port: int) -> str:
        """Return where a service of the first node with a label answers."""
        return f"http://{self.backend.address(node + '-1', network)}:{port}"

    def agent(self, site: str) -> AgentClient:
        """Return a client of a site's agent."""
        return AgentClient(self.url(f"storage-{site}", SITES[site], 50000), token=self.token)

    def enabler(self) -> EnablerClient:
        """Return a client of the enabler, wherever it is now."""
        return EnablerClient(self.url("enabler", "lan-cloud", 8000), token=self.token)

    def serves(self) -> bool:
        """Return whether the enabler answers, and has read what is deployed."""
        client = self.enabler()
        try:
            return client.list() is not None
        except MistbowError:
            return False
        finally:
            client.close()

    def run(self, scenario: str) -> tuple[Done, ...]:
        """Run a scenario; returns what was done when."""
        fog = model.load(FILE)
        return run_scenario(self.backend, timetable(fog, plan(fog), scenario))

    def points(self) -> pa.Table:
        """Return all points that the three sites have stored, with their attributes as JSON."""
        tables = []
        for site in SITES:
            agent = self.agent(site)
            table = agent.read("raw").table
            tables.append(table.cast(_plain(table.schema)))
            agent.close()
        return pa.concat_tables(tables)


@contextmanager
def raised(name: str, rate: int = 200, vehicles: int | None = None) -> Iterator[City]:
    """Raise the smart city while the ``with`` lasts; the token is there already."""
    fog = plan(model.load(FILE))
    services = load_services(FILE)
    command = [
        f"--rate={rate}" if word.startswith("--rate=") else word
        for word in services["vehicles"].command or []
    ]
    if vehicles is not None:
        command.append(f"--vehicles={vehicles}")
    services["vehicles"] = replace(services["vehicles"], command=command)
    backend = DockerBackend(name, fog, services)
    raise_fog(backend)
    try:
        yield City(backend, TOKEN.read_text().strip())
    finally:
        backend.down()


@dataclass(frozen=True)
class Question:
    """An insight in the oracle's own words: SQL over the points in ``(t - size_ms, t]``."""

    value: str
    metric: str
    size_ms: int
    key: str = "'{}'"
    where: str = "true"


def _label(name: str) -> str:
    return f"json_extract_string(attributes, '$.{name}')"


def _key(name: str) -> str:
    return f"""'{{"{name}":"' || {_label(name)} || '"}}'"""


QUESTIONS: Mapping[str, Question] = {
    "passengers_now": Question("avg(value)", "passengers", 10_000),
    "worst_delay": Question("max(value)", "delay", 30_000, _key("region")),
    "north_delay": Question(
        "avg(value)", "delay", 30_000, _key("line"), f"{_label('region')} = 'north'"
    ),
    "free_seats": Question("60 - avg(value)", "passengers", 10_000),
    "fares_a_minute": Question("sum(value)", "fare", 60_000),
}
"""What ``examples/city.insights`` asks, each EVERY 5 SECONDS."""


def oracle(points: pa.Table, since: int, until: int) -> dict[tuple[str, str, int], float]:
    """Return what each insight should say at the ticks after ``since`` up to ``until``."""
    first = since // 5000 * 5000 + 5000
    found = {}
    with duckdb.connect() as connection:
        connection.register("points", points)
        for name, question in QUESTIONS.items():
            query = f"""
                select {question.key} as key, t, {question.value}
                from (select t from range({first}, {until + 1}, 5000) as x(t)), points
                where metric = '{question.metric}' and {question.where}
                  and ts > t - {question.size_ms} and ts <= t
                group by key, t
            """  # noqa: S608 - words of our own
            for key, tick, value in connection.execute(query).fetchall():
                found[name, key, tick] = value
    return found


def _plain(schema: pa.Schema) -> pa.Schema:
    return pa.schema(
        [
            field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
            for field in schema
        ]
    )
