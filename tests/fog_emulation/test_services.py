"""The services of a compose file, and their unsupported keys."""

from pathlib import Path

import pytest

from fog_emulation import model
from fog_emulation.services import ComposeService, load_services
from mistbow.errors import InvalidRequestError
from tests.fog_emulation.cities import CITY, FILES


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_files_have_no_unsupported_keys(file: Path) -> None:
    assert {service.unsupported for service in load_services(file).values()} == {()}


def test_load_services_replaces_variables(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    compose = tmp_path / "compose.yml"
    monkeypatch.setenv("RATE", "7")
    monkeypatch.delenv("IMAGE", raising=False)
    compose.write_text(
        "services: {web: {image: '${IMAGE:-any}', command: ['--rate=${RATE}', '$$x{IMAGE}']}}"
    )
    assert load_services(compose)["web"] == ComposeService("any", ["--rate=7", "$x{IMAGE}"])


def test_buses_of_an_emulated_fog_send_to_its_edges_and_not_to_those_of_make_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # As the documents advise for `make up` on a slow machine.
    monkeypatch.setenv("MISTBOW_EDGES", "2")
    monkeypatch.setenv("MISTBOW_RATE", "7")
    buses = load_services(CITY, model.load(CITY).replicas)["buses"]
    assert buses.environment["MISTBOW_CITY_AGENTS"] == "3"
    assert buses.command is not None
    assert "--rate=7" in buses.command


def test_load_services_names_unsupported_keys(tmp_path: Path) -> None:
    compose = tmp_path / "compose.yml"
    compose.write_text(
        "services: {web: {image: any, command: [a, b], ports: ['80'], cpus: 1, pid: host, dns: x}}"
    )
    assert load_services(compose) == {
        "web": ComposeService("any", command=["a", "b"], unsupported=("dns", "pid"))
    }


def test_keys_of_fogify_s_examples_that_the_emulation_replaces_are_accepted(tmp_path: Path) -> None:
    compose = tmp_path / "compose.yml"
    compose.write_text(
        "services: {web: {image: any, hostname: h, depends_on: [db], tty: true, privileged: true}}"
    )
    assert load_services(compose)["web"].unsupported == ("privileged",)


def test_load_services_rejects_service_without_image(tmp_path: Path) -> None:
    compose = tmp_path / "compose.yml"
    compose.write_text("services: {web: {build: .}}")
    with pytest.raises(InvalidRequestError, match=r"services\.web: the image is missing"):
        load_services(compose)


def test_load_services_resolves_secrets_relative_to_compose_file(tmp_path: Path) -> None:
    compose = tmp_path / "compose.yml"
    compose.write_text(
        "services: {web: {image: any, secrets: [token]}}\nsecrets: {token: {file: ./secret/token}}"
    )
    assert load_services(compose)["web"].secrets == {"token": tmp_path / "secret" / "token"}


@pytest.mark.parametrize("declared", ["{}", "{token: {external: true}}"])
def test_load_services_rejects_secret_without_file(tmp_path: Path, declared: str) -> None:
    compose = tmp_path / "compose.yml"
    compose.write_text(f"services: {{web: {{image: any, secrets: [token]}}}}\nsecrets: {declared}")
    with pytest.raises(InvalidRequestError, match="token"):
        load_services(compose)


def test_load_services_reads_lists_of_pairs_as_compose(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("RATE", "7")
    monkeypatch.delenv("UNSET", raising=False)
    compose = tmp_path / "compose.yml"
    compose.write_text(
        "services: {web: {image: '$RATE', labels: ['mistbow.site=edge=1'], "
        "environment: [A=1, RATE, UNSET, B=]}, db: {image: x, environment: {A: 5, B: true, C: }}}"
    )
    web, db = load_services(compose).values()
    assert (web.image, web.labels) == ("7", {"mistbow.site": "edge=1"})
    assert web.environment == {"A": "1", "RATE": "7", "B": ""}
    assert db.environment == {"A": "5", "B": "true"}


@pytest.mark.parametrize(
    ("services", "problem"),
    [
        ("{web: {image: '${NAME:?name it}'}}", r"\$\{NAME:\?name it\} is not supported"),
        ("{web: {image: x, environment: abc}}", r"services\.web\.environment: write NAME: VALUE"),
        ("{web: {image: x, labels: {a: [b]}}}", r"services\.web\.labels: write NAME: VALUE"),
        ("[web]", "services: write services as NAME: FIELDS"),
    ],
)
def test_load_services_refuses_what_it_cannot_read(
    services: str, problem: str, tmp_path: Path
) -> None:
    compose = tmp_path / "compose.yml"
    compose.write_text(f"services: {services}")
    with pytest.raises(InvalidRequestError, match=problem):
        load_services(compose)
