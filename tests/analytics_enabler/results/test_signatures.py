"""Results of insights WITH SIGNATURE: only a token with the same signature may read them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pyarrow as pa
import pytest
from pydantic import SecretStr

from analytics.client.enabler import EnablerClient
from analytics_enabler.main import create_app
from analytics_enabler.settings import EnablerSettings
from mistbow.auth.callers import Scope
from mistbow.auth.token_file import new_token_file, write_token_file
from mistbow.client.agent import AgentClient
from mistbow.errors import ForbiddenError
from mistbow.streams.schemas import RAW, RESULT_ROWS
from storage_agent.settings import AgentSettings
from tests.analytics_enabler.live.reader import reading
from tests.support.conditions import eventually
from tests.support.http_server import served

FOG = "t0ken-of-the-whole-fog"
OPEN = "open = COMPUTE AVG(x) EVERY 1 s"
SIGNED = "secret = COMPUTE MAX(x) EVERY 1 s WITH SIGNATURE 'board'"


@dataclass
class Tokens:
    url: str
    by_name: dict[str, str]

    def client(self, name: str) -> EnablerClient:
        return EnablerClient(self.url, token=self.by_name[name])


@pytest.fixture
def agent_settings(agent_settings: AgentSettings) -> AgentSettings:
    return agent_settings.model_copy(update={"token": SecretStr(FOG)})


@pytest.fixture
def agent(agent_url: str) -> Iterator[AgentClient]:
    client = AgentClient(agent_url, FOG)
    yield client
    client.close()


@pytest.fixture
def tokens(agent_url: str, tmp_path: Path) -> Iterator[Tokens]:
    content, by_name = new_token_file(), {"fog": FOG}
    given: list[tuple[str, Scope, list[str]]] = [
        ("operator", "admin", []),
        ("chair", "read", ["board"]),
    ]
    for name, scope, signatures in given:
        content, by_name[name] = content.with_token(name, frozenset({scope}), "", None, signatures)
    file = tmp_path / "tokens.json"
    write_token_file(file, content)
    settings = EnablerSettings(home=tmp_path, agent_url=agent_url, token=FOG, tokens_file=file)
    with served(create_app(settings)) as url:
        headers = {"Authorization": f"Bearer {FOG}"}
        eventually(lambda: httpx.get(f"{url}/readyz", headers=headers).is_success)
        yield Tokens(url, by_name)


def test_signed_results_require_signature(tokens: Tokens, agent: AgentClient) -> None:
    operator, chair, fog = (tokens.client(name) for name in ("operator", "chair", "fog"))
    deployment = operator.submit(f"{OPEN}; {SIGNED}").deployment_id
    for insight in operator.show(deployment).insights:
        (group,) = [one.id for one in operator.explain(insight.text).groups]
        stream = f"results/{group}"
        assert (".signed-board" in stream) == (insight.name == "secret")
        row = {"insight": insight.uid, "key": "{}", "ts": insight.first_tick, "value": 1.0}
        row |= {"revision": 0, "computed_at": insight.first_tick}
        agent.create_stream(stream, RESULT_ROWS)
        agent.append(stream, pa.RecordBatch.from_pylist([row], schema=RESULT_ROWS))
    assert [r.insight for r in operator.results(deployment, insight="open").results] == ["open"]
    for insight in (None, "secret"):
        with pytest.raises(ForbiddenError, match=r"insight secret requires .* the signature board"):
            operator.results(deployment, insight=insight)
        with pytest.raises(ForbiddenError, match="signature board"):
            next(operator.follow(deployment, insight=insight))
        for reader in (chair, fog):
            found = reader.results(deployment, insight=insight).results
            assert "secret" in {result.insight for result in found}
    for text in (SIGNED, "c = COMPUTE INSIGHT secret EVERY 1 s WITH SIGNATURE 'board'"):
        with pytest.raises(ForbiddenError, match="signature board"):
            operator.preview(text)
    assert next(chair.follow(deployment, insight="secret", after="")).value == 1
    check_live_events(tokens, agent, deployment)
    # An ended generation ends at the frontier, which has to pass the tick of the stored result.
    last = max(insight.first_tick for insight in operator.show(deployment).insights)
    eventually(lambda: agent.info(RAW).frontier >= last)
    # An ended generation stays signed, even if the current one of its name is not.
    operator.amend(deployment, OPEN)
    with pytest.raises(ForbiddenError, match="signature board"):
        operator.results(deployment, insight="secret")
    operator.amend(deployment, f"{OPEN}; {SIGNED.partition(' WITH ')[0]}")
    assert {r.insight for r in operator.results(deployment).results} == {"open"}
    assert {r.insight for r in chair.results(deployment).results} == {"open", "secret"}
    for client in (operator, chair, fog):
        client.close()


def check_live_events(tokens: Tokens, agent: AgentClient, deployment: str) -> None:
    """Fail unless live events have signed results for clients with the signature only."""
    fog = tokens.client("fog")
    shown = {each.name: each for each in fog.show(deployment).insights}
    insights = f"{deployment}/secret,{deployment}/open"
    url, by_name = tokens.url, tokens.by_name
    with (
        reading(url, by_name["operator"], insights=insights, topics="states") as operator,
        reading(url, by_name["chair"], insights=insights, topics="states") as chair,
    ):
        assert "signature board" in operator.next("problem")["message"]
        for reader in (operator, chair):
            reader.next("state")
        for number in range(1, 4):
            for name in ("secret", "open"):
                one = shown[name]
                row = {"insight": one.uid, "key": "{}", "ts": one.first_tick + 1000 * number}
                row |= {"value": 2.0, "revision": 0, "computed_at": one.first_tick}
                rows = pa.RecordBatch.from_pylist([row], schema=RESULT_ROWS)
                agent.append(f"results/{one.group}", rows)
        assert {each["insight"] for each in operator.results(3)} == {"open"}
        assert {each["insight"] for each in chair.results(6)} == {"open", "secret"}
    fog.close()


def test_idempotency_keys_are_separate_for_each_token(tokens: Tokens) -> None:
    operator, fog = tokens.client("operator"), tokens.client("fog")
    first = operator.submit(OPEN, idempotency_key="k")
    assert operator.submit(OPEN, idempotency_key="k") == first
    other = fog.submit(SIGNED, idempotency_key="k")
    assert other.deployment_id != first.deployment_id
    assert [insight.name for insight in fog.show(other.deployment_id).insights] == ["secret"]
