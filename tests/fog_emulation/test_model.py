"""Fogify's model: how models are read, and where their errors are located."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from fog_emulation import model
from fog_emulation.compose_file import parse_compose
from fog_emulation.plan import plan
from fog_emulation.timetable import timetable
from mistbow.errors import InvalidRequestError
from mistbow.flags import exit_on_errors
from tests.fog_emulation.cities import CITY, FILES, parsed, small_city, with_actions


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_files_have_a_plan_and_timetables_of_their_scenarios(file: Path) -> None:
    fog = model.load(file)
    start = plan(fog)
    assert fog.scenarios
    for scenario in fog.scenarios:
        steps = timetable(fog, start, scenario.name)
        assert any(step.effects for step in steps)
        assert steps[-1].at_s <= 120


def test_load_reads_whole_city() -> None:
    city = model.load(CITY)
    replicas = {each.label: each.replicas for each in city.topology}
    assert replicas == {
        "storage-cloud": 1,
        "worker-cloud": 1,
        "region": 2,
        "edge": 3,
        "enabler": 1,
        "buses": 1,
    }
    internet = city.networks[0].bidirectional
    assert internet == model.Quality.model_validate(
        {"bandwidth": "100Mbps", "latency": {"delay": "50ms", "deviation": "5ms"}, "drop": "0.1%"}
    )
    assert city.nodes[0].capabilities.memory == 704 * 2**20
    assert [each.name for each in city.scenarios] == [
        "cut-and-heal",
        "rush-hour",
        "worker-dies-link-cut",
        "edge-joins",
    ]


@pytest.mark.parametrize(
    ("path", "value", "problem"),
    [
        (["nodes", 0, "capabilities", "memory"], "2X", "nodes.0.capabilities.memory: '2X' is no"),
        (["nodes", 0, "colour"], "red", "nodes.0.colour: unknown field"),
        (
            ["nodes", 0, "capabilities", "processor", "cores"],
            "2",
            "processor.cores: write a whole number",
        ),
        (
            ["networks", 0, "bidirectional", "bandwidth"],
            "fast",
            "networks.0.bidirectional.bandwidth: 'fast' is not a quantity such as 100Mbps",
        ),
        (["networks", 0, "bidirectional", "drop"], "120%", "drop: 120% is more than 100%"),
        (["networks", 0, "bidirectional", "latency"], {"delay": "1ms", "deviation": "2ms"}, "dev"),
        (["networks", 0, "uplink"], {}, "networks.0: bidirectional is combined with uplink"),
        (["networks", 0, "bidirectional"], None, "networks.0: the network lacks a direction"),
        (
            ["networks", 0, "links"],
            [{"from_node": "a", "to_node": "c", "properties": {}}],
            "networks.0.links.0: there is no label in the network net called c",
        ),
        (["topology", 0, "label"], "b", "topology: b is defined 2 times"),
        (["topology", 0, "replicas"], 3000, "instances; at most 500 are emulated: reduce the repl"),
        (["topology", 0, "node"], "rack", "topology.0.node: there is no node called rack"),
        (["topology", 0, "service"], "db", "topology.0.service: there is no service called db"),
        (["topology", 0, "networks"], ["x"], "topology.0.networks: there is no network called x"),
        (["topology", 0, "label"], "a b", "topology.0.label: String should match"),
        (["topology", 0, "label"], "b-1", "topology.0.label: b-1 is the name of an instance of b"),
        (["networks", 0, "bidirectional", "bandwidth"], "0bps", "bandwidth: write a value above 0"),
        (["topology", 0, "networks"], 5, "topology.0.networks: write a list"),
    ],
)
def test_parse_names_location_of_error(path: list[Any], value: Any, problem: str) -> None:
    compose = small_city()
    place = compose["x-fogify"]
    for step in path[:-1]:
        place = place[step]
    place[path[-1]] = value
    with pytest.raises(InvalidRequestError) as refused:
        parsed(compose)
    assert any(problem in each and each.startswith("x-fogify.") for each in refused.value.details)


@pytest.mark.parametrize(
    ("action", "problem"),
    [
        (("c", "command", {"command": "ls"}), "instance_type: there is no label called c"),
        (("a", "network", {"network": "wan", "bidirectional": {}}), "no network of a called wan"),
        (("a", "vertical_scaling", {"cpu": "+1", "memory": "1G"}), "exactly one of cpu and memory"),
        (("a", "vertical_scaling", {"cpu": "-100"}), "-100 would leave nothing"),
        (("a", "stress", {"cpu": 50, "io": 3, "duration": "1s"}), "parameters.io: unknown field"),
        (("a", "teleport", {}), "there is no action teleport; write one of"),
    ],
)
def test_parse_checks_actions(action: tuple[str, str, dict[str, Any]], problem: str) -> None:
    label, kind, parameters = action
    with pytest.raises(InvalidRequestError, match=r"x-fogify\.scenarios\.0\.actions\.0") as refused:
        with_actions((0, label, 1, kind, parameters))
    assert problem in refused.value.message


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("services: {a: {image: x}, a: {image: y}}", "the key a is given twice"),
        ("a: &loop\n  b: [*loop]", "the anchor loop contains itself"),
        ("a: *none", "undefined alias 'none'"),
    ],
)
def test_parse_refuses_yaml_that_compose_refuses(text: str, problem: str) -> None:
    with pytest.raises(InvalidRequestError, match=problem):
        model.parse(text)


def test_merged_keys_may_be_given_again() -> None:
    compose = {**small_city(), "x-a": {"one": 1}}
    text = yaml.safe_dump(compose) + "x-b: &b {one: 1, two: 2}\nx-c: {<<: *b, two: 3}\nx-d: *b\n"
    assert model.parse(text) == parsed(compose)
    assert parse_compose(text)["x-c"] == {"one": 1, "two": 3}


def test_load_refuses_a_file_that_is_no_text(tmp_path: Path) -> None:
    file = tmp_path / "fog.yml"
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(InvalidRequestError, match="is not a text in UTF-8"):
        model.load(file)


@pytest.mark.parametrize("text", ["services: {}", "[]", "a: [", ""])
def test_parse_rejects_file_without_model(text: str) -> None:
    with pytest.raises(InvalidRequestError):
        model.parse(text)


def test_fields_of_fogify_s_examples_without_effect_are_read() -> None:
    compose = small_city()
    fog = compose["x-fogify"]
    fog["nodes"][0]["capabilities"]["disk"] = "32G"
    fog["networks"][0]["capacity"] = None
    network = fog["topology"][0]["networks"][0]
    fog["topology"][0]["networks"][0] = {"name": network, "ip": "10.15.0.3"}
    found = parsed(compose)
    disk = found.nodes[0].capabilities.disk
    assert disk is not None
    assert disk.size == 32 * 2**30
    assert found.networks[0].capacity is None
    assert found.topology[0].networks[0] == network
    fog["topology"][0]["networks"][0]["ip"] = "10.15.0.300"
    with pytest.raises(InvalidRequestError, match=r"topology\.0\.networks\.0\.ip: .*10.15.0.300"):
        parsed(compose)


@pytest.mark.parametrize(
    ("disk", "expected"),
    [
        # As Fogify's SDK writes a node without a disk.
        ("", None),
        (None, None),
        # As in the documentation of Fogify.
        (
            {"type": "SDcard", "size": "8G", "read": "95MB/s", "write": "90MB/s"},
            {"type": "SDcard", "size": 8 * 2**30, "read": "95MB/s", "write": "90MB/s"},
        ),
    ],
)
def test_disk_is_read_in_each_form_of_fogify(disk: object, expected: object) -> None:
    compose = small_city()
    compose["x-fogify"]["nodes"][0]["capabilities"]["disk"] = disk
    found = parsed(compose).nodes[0].capabilities.disk
    assert (found and found.model_dump()) == expected


def test_disk_without_a_unit_is_refused() -> None:
    compose = small_city()
    compose["x-fogify"]["nodes"][0]["capabilities"]["disk"] = "32"
    with pytest.raises(InvalidRequestError, match=r"disk\.size: '32' is not a quantity"):
        parsed(compose)


def test_fogify_s_own_example_is_read() -> None:
    fog = model.load(Path(__file__).parent / "fogify_example.yml")
    assert [blueprint.label for blueprint in fog.topology][-1] == "car-workload-2"
    assert fog.topology[-1].networks == ["edge-net-2", "internet"]
    steps = timetable(fog, plan(fog), "scenario_1")
    assert [step.at_s for step in steps] == [30, 50, 80]
    # The last action is NOOP.
    assert [len(step.effects) for step in steps] == [2, 2, 0]


def test_problem_of_a_file_is_printed_once(tmp_path: Path) -> None:
    compose = small_city()
    compose["x-fogify"]["nodes"][0]["colour"] = "red"
    compose["x-fogify"]["topology"][0]["label"] = "a b"
    file = tmp_path / "fog.yml"
    file.write_text(yaml.safe_dump(compose))
    with pytest.raises(SystemExit) as ended, exit_on_errors():
        model.load(file)
    text = str(ended.value)
    assert text.count("unknown field") == text.count("String should match") == 1
