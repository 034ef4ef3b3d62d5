"""The services of a compose file, and what an emulated fog leaves out of them."""

from pathlib import Path

import pytest

from mistbow.errors import InvalidRequestError
from mistbow.fog_emulation.services import Service, load_services
from tests.mistbow.fog_emulation.cities import SMART_CITY


def test_the_smart_city_s_services_are_taken_whole() -> None:
    assert {service.left_out for service in load_services(SMART_CITY).values()} == {()}


def test_what_is_left_out_is_named(tmp_path: Path) -> None:
    compose = tmp_path / "compose.yml"
    compose.write_text("services: {web: {image: any, command: [a, b], ports: ['80'], cpus: 1}}")
    assert load_services(compose) == {
        "web": Service("any", command=["a", "b"], left_out=("cpus", "ports"))
    }


def test_a_service_without_an_image_is_refused(tmp_path: Path) -> None:
    compose = tmp_path / "compose.yml"
    compose.write_text("services: {web: {build: .}}")
    with pytest.raises(InvalidRequestError, match=r"services\.web: needs an image"):
        load_services(compose)


def test_secrets_are_files_beside_the_compose_file(tmp_path: Path) -> None:
    compose = tmp_path / "compose.yml"
    compose.write_text(
        "services: {web: {image: any, secrets: [token]}}\nsecrets: {token: {file: ./secret/token}}"
    )
    assert load_services(compose)["web"].secrets == {"token": tmp_path / "secret" / "token"}


@pytest.mark.parametrize("declared", ["{}", "{token: {external: true}}"])
def test_a_secret_without_a_file_is_refused(tmp_path: Path, declared: str) -> None:
    compose = tmp_path / "compose.yml"
    compose.write_text(f"services: {{web: {{image: any, secrets: [token]}}}}\nsecrets: {declared}")
    with pytest.raises(InvalidRequestError, match="token"):
        load_services(compose)
