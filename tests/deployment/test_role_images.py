"""The images of single roles: their services start without the packages that they lack."""

import sys
from pathlib import Path

import pytest

from tests.support.role_program import omitted_packages
from tests.support.services import service


@pytest.mark.usefixtures("processes")
@pytest.mark.parametrize(
    ("role", "module", "port"),
    [
        ("storage", "storage_agent", "agent_port"),
        ("storage", "monitoring_agent", "monitor_port"),
        ("enabler", "analytics_enabler", "enabler_port"),
        ("enabler", "monitoring_agent", "monitor_port"),
    ],
)
def test_service_starts_without_the_packages_that_its_image_lacks(
    tmp_path: Path, role: str, module: str, port: str
) -> None:
    prefix = (sys.executable, "-m", "tests.support.role_program", role)
    # It answers, although it waits for other services.
    with service(module, port, prefix=prefix, ready=False, home=tmp_path) as running:
        assert running.pid


def test_only_the_worker_s_image_contains_spark() -> None:
    lacking = {
        role for role in ("storage", "worker", "enabler") if "pyspark" in omitted_packages(role)
    }
    assert lacking == {"storage", "enabler"}
