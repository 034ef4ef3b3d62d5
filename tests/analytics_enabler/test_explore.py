"""The search of data through the enabler, with a real storage agent and the rights of callers."""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pydantic import SecretStr

from analytics.client.enabler import EnablerClient
from analytics_enabler.main import create_app
from analytics_enabler.settings import EnablerSettings
from mistbow.auth.callers import Scope
from mistbow.auth.token_file import new_token_file, write_token_file
from mistbow.client.agent import AgentClient
from mistbow.client.agent_model import Point
from mistbow.clock import system_clock
from mistbow.errors import ForbiddenError, InvalidRequestError
from mistbow.streams.schemas import RESULT_ROWS
from storage_agent.settings import AgentSettings
from tests.support.conditions import eventually
from tests.support.http_server import served

FOG = "t0ken-of-the-whole-fog"
HOSTILE = "<img src=x onerror=alert(1)>‮" + "x" * 400


@dataclass
class Site:
    """An agent and an enabler with tokens: ``fog``, ``viewer`` (read) and ``bus`` (a prefix)."""

    agent: AgentClient
    url: str
    tokens: dict[str, str]
    now: int

    def client(self, name: str) -> EnablerClient:
        return EnablerClient(self.url, token=self.tokens[name])


@pytest.fixture
def agent_settings(agent_settings: AgentSettings) -> AgentSettings:
    return agent_settings.model_copy(update={"token": SecretStr(FOG)})


@pytest.fixture
def site(agent_url: str, tmp_path: Path) -> Iterator[Site]:
    content, tokens = new_token_file(), {"fog": FOG}
    read: frozenset[Scope] = frozenset({"read"})
    for name, prefix in (("viewer", ""), ("bus", "bus-")):
        content, tokens[name] = content.with_token(name, read, prefix, None)
    file = tmp_path / "tokens.json"
    write_token_file(file, content)
    agent, now = AgentClient(agent_url, FOG), system_clock()
    north = {"region": "north"}
    points = [
        Point("delay", "bus-1", now, 42.5, name="Delay", units="s", labels=north),
        Point("cpu.util", "host-1", now, 7.0, labels={"region": "south"}),
        Point(HOSTILE, "bus-2", now, 1.0),
    ]
    agent.put(points)
    settings = EnablerSettings(home=tmp_path, agent_url=agent_url, token=FOG, tokens_file=file)
    with served(create_app(settings)) as url:
        headers = {"Authorization": f"Bearer {FOG}"}
        eventually(lambda: httpx.get(f"{url}/readyz", headers=headers).is_success)
        yield Site(agent, url, tokens, now)
    agent.close()


def test_search_finds_metrics_with_attributes_of_recent_points(site: Site) -> None:
    viewer = site.client("viewer")
    page = viewer.metrics()
    assert {each.metric for each in page.metrics} == {"delay", "cpu.util", HOSTILE}
    [delay] = viewer.metrics("delay").metrics
    assert (delay.name, delay.units, delay.entities) == ("Delay", "s", ["bus-1"])
    assert delay.labels["region"] == ["north"]
    assert [each.metric for each in viewer.metrics(label="region=south").metrics] == ["cpu.util"]
    assert [each.metric for each in viewer.metrics(search="South").metrics] == ["cpu.util"]
    values = {each.name: each.values for each in viewer.attributes()}
    assert values["region"] == ["north", "south"]
    [series] = viewer.series("delay").series
    assert (series.entity, series.site) == ("bus-1", "n1")
    assert series.latest is not None
    assert (series.latest.ts, series.latest.value) == (site.now, 42.5)
    [hostile] = viewer.series(HOSTILE).series
    assert hostile.entity == "bus-2"
    viewer.close()


def test_completion_offers_metrics_and_values_that_exist(site: Site) -> None:
    viewer = site.client("viewer")
    text = "a = COMPUTE AVG(del"
    first = viewer.complete(text, 1, len(text) + 1).items[0]
    assert (first.label, first.detail) == ("delay", "Delay, s")
    text = "a = COMPUTE AVG(delay WHEN region == "
    labels = [each.label for each in viewer.complete(text, 1, len(text) + 1).items]
    assert labels == ["north", "south"]
    viewer.close()


def test_queries_have_the_answers_and_errors_of_the_agent(site: Site) -> None:
    viewer = site.client("viewer")
    answer = viewer.sql("SELECT value FROM historical WHERE metric = ?", ["delay"])
    assert answer["rows"] == [[42.5]]
    with pytest.raises(InvalidRequestError, match="nowhere"):
        viewer.sql("SELECT * FROM nowhere")
    answer = viewer.promql("delay", time=site.now / 1000)
    [found] = answer["data"]["result"]
    assert found["value"][1] == "42.5"
    end = site.now / 1000
    matrix = viewer.promql("delay", start=end - 60, end=end, step=30)
    assert matrix["data"]["resultType"] == "matrix"
    headers = {"Authorization": f"Bearer {site.tokens['viewer']}"}
    wrong = httpx.post(f"{site.url}/api/promql/query", json={"query": "("}, headers=headers)
    assert (wrong.status_code, wrong.json()["status"]) == (400, "error")
    names = httpx.get(f"{site.url}/api/promql/label/region/values", headers=headers)
    assert names.json()["data"] == ["north", "south"]
    for name in ("match", "match[]"):
        url = f"{site.url}/api/promql/series"
        selected = httpx.get(url, params={name: "delay"}, headers=headers).json()["data"]
        assert {each["__name__"] for each in selected} == {"delay"}
    viewer.close()


def test_token_with_entity_prefix_sees_only_its_entities(site: Site) -> None:
    bus = site.client("bus")
    assert {each.metric for each in bus.metrics().metrics} == {"delay", HOSTILE}
    assert all(not each.labels for each in bus.metrics().metrics)
    assert bus.series("cpu.util").series == []
    rows = bus.sql("SELECT DISTINCT entity FROM historical ORDER BY 1")["rows"]
    assert rows == [["bus-1"], ["bus-2"]]
    with pytest.raises(ForbiddenError):
        bus.sql('SELECT * FROM "raw"')
    for refused in (bus.attributes, lambda: bus.complete("a", 1, 2), lambda: bus.promql("up")):
        with pytest.raises(ForbiddenError, match="entities that begin with"):
            refused()
    bus.close()


def test_signed_stream_is_refused_by_sql_without_signature(site: Site) -> None:
    stream = "results/all.fair.0a1b2c3d.signed-board"
    site.agent.create_stream(stream, RESULT_ROWS)
    viewer, fog = site.client("viewer"), site.client("fog")
    select = f'SELECT * FROM "{stream}"'  # noqa: S608 - a name that the test chose
    with pytest.raises(ForbiddenError, match="signature board"):
        viewer.sql(select)
    assert fog.sql(select)["rows"] == []
    viewer.close()
    fog.close()


def test_downloaded_results_equal_those_of_the_api(site: Site) -> None:
    fog = site.client("fog")
    deployment = fog.submit("a = COMPUTE AVG(delay) BY node EVERY 1 s").deployment_id
    [insight] = fog.show(deployment).insights
    row = {"insight": insight.uid, "key": '{"node":"n1"}', "value": 0.1, "revision": 0}
    rows = [{**row, "ts": insight.first_tick + 1000 * n, "computed_at": n} for n in range(3)]
    site.agent.create_stream("results/all.fair", RESULT_ROWS)
    site.agent.append("results/all.fair", pa.RecordBatch.from_pylist(rows, schema=RESULT_ROWS))
    shown = fog.results(deployment).results
    table = pq.read_table(pa.BufferReader(fog.download(deployment, "parquet")))
    assert table["ts"].to_pylist() == [each.ts for each in shown] == [each["ts"] for each in rows]
    text = fog.download(deployment, start=shown[1].ts, limit=1).decode()
    [line] = csv.DictReader(io.StringIO(text))
    assert (line["ts"], line["value"], line["key"]) == (str(rows[2]["ts"]), "0.1", '{"node": "n1"}')
    fog.close()
