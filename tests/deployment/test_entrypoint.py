"""The entry point of the image: the names of a container in its settings."""

import doctest
import re
from pathlib import Path

import pytest

from deploy import entrypoint
from deploy.entrypoint import fill, missing_files
from storage_agent.mqtt_topics import template_fault

COMPOSE_1 = ["fog_edge_12.fog_front", "fog_edge_12.fog_internet"]
COMPOSE_2 = ["fog-edge-12.fog_front", "fog-edge-12.fog_internet"]
EMULATED = ["mistbow-fog-a-b-edge-12.mistbow-fog-a-b-internet"]
FOGIFY = ["fogify_edge_12.internet"]
SWARM = ["fogify_edge.12.q8a1xj3k.internet"]


def test_examples_of_the_entry_point_are_right() -> None:
    assert doctest.testmod(entrypoint).failed == 0


@pytest.mark.parametrize("names", [COMPOSE_1, COMPOSE_2, EMULATED, FOGIFY, SWARM])
def test_name_and_number_of_the_own_container_are_filled(names: list[str]) -> None:
    assert fill("edge-{replica}", names) == "edge-12"
    assert fill("{of:a,b,c,d,e}", names) == "b"
    assert fill("http://{self.internet}:8300", names) == f"http://{names[-1]}:8300"


@pytest.mark.parametrize(
    ("names", "other"),
    [
        (COMPOSE_1, "fog_storage-cloud_1.fog_internet"),
        (COMPOSE_2, "fog-storage-cloud-1.fog_internet"),
        (EMULATED, "mistbow-fog-a-b-storage-cloud-1.mistbow-fog-a-b-internet"),
    ],
)
def test_name_of_another_replica_is_filled(names: list[str], other: str) -> None:
    assert fill("{storage-cloud-1.internet}", names) == other


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("{self.street}", COMPOSE_1),
        ("{edge-1.street}", COMPOSE_1),
        ("{edge-1.internet}", FOGIFY),
        ("{replica}", ["fog_edge.fog_internet"]),
        ("{replica}", []),
    ],
)
def test_unknown_name_is_an_error(text: str, names: list[str]) -> None:
    with pytest.raises(LookupError):
        fill(text, names)


@pytest.mark.parametrize("text", ["", "plain", '[{"match": {"group": ["a.b"]}}]', "{A.b}", "{}"])
def test_other_texts_remain_the_same(text: str) -> None:
    assert fill(text, COMPOSE_1) == text


def test_fields_of_templates_of_mqtt_topics_remain_the_same() -> None:
    fault = template_fault("{}")
    assert fault is not None
    fields = re.findall(r"\{\w[\w.]*\}", fault)
    assert {"{entityID}", "{labels.NAME}"} < set(fields)
    names = ("line", "line-1", "line_1", "1")
    fields += [f"{{labels.{name}}}" for name in names]
    template = "/".join(fields)
    assert template_fault(template) is None
    assert fill(template, COMPOSE_1) == template


def test_identities_that_settings_name_are_awaited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entrypoint, "_DELIVERED", f"{tmp_path}/")
    variables = {"MISTBOW_IDENTITY_FILE": f"{tmp_path}/a", "MISTBOW_TLS_CA": "/etc/absent.pem"}
    variables["MISTBOW_TOKEN_FILES"] = f"{tmp_path}/b, {tmp_path}/c"
    (tmp_path / "b").touch()
    assert missing_files(variables) == [f"{tmp_path}/a", f"{tmp_path}/c"]
    (tmp_path / "a").touch()
    (tmp_path / "c").touch()
    assert missing_files(variables) == []
