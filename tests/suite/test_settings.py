import pytest
from pydantic import ValidationError

from analytics_enabler.settings import EnablerSettings
from storage_agent.settings import AgentSettings
from suite.settings import RunSettings, StorageSettings

EACH = pytest.mark.parametrize("settings", [AgentSettings, RunSettings, StorageSettings])


@pytest.fixture
def file(tmp_path, monkeypatch):
    """Set the variable MISTBOW_TOKEN_FILE to the path of a new file; return the path."""
    path = tmp_path / "token"
    monkeypatch.setenv("MISTBOW_TOKEN_FILE", str(path))
    return path


@EACH
def test_the_token_may_be_in_a_file_and_shows_nowhere(file, settings):
    file.write_text("a-secret\n")
    found = settings()
    assert found.token.get_secret_value() == "a-secret"
    assert "a-secret" not in f"{found!r} {found} {found.model_dump_json()}"


@EACH
def test_a_token_and_a_file_both_are_refused(file, settings, monkeypatch):
    file.write_text("a-secret")
    monkeypatch.setenv("MISTBOW_TOKEN", "another")
    with pytest.raises(ValidationError, match="both set") as raised:
        settings()
    assert "a-secret" not in str(raised.value)
    assert "another" not in str(raised.value)


@pytest.mark.parametrize("content", ["", " \n"])
def test_an_empty_file_is_refused(file, content):
    file.write_text(content)
    with pytest.raises(ValidationError, match="is empty"):
        AgentSettings()


def test_missing_file_is_refused(file):
    with pytest.raises(ValidationError, match="cannot be read"):
        AgentSettings()


def test_a_file_that_is_no_text_is_refused(file):
    file.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ValidationError, match="cannot be read"):
        AgentSettings()


def test_an_empty_token_is_refused(monkeypatch):
    monkeypatch.setenv("MISTBOW_TOKEN", "")
    with pytest.raises(ValidationError, match="is empty"):
        AgentSettings()


def test_settings_of_schedulers_are_json(monkeypatch):
    assert EnablerSettings().scheduler_settings == {}
    monkeypatch.setenv("MISTBOW_SCHEDULER_SETTINGS", '{"latency": {"margin": "0.2"}}')
    assert EnablerSettings().scheduler_settings == {"latency": {"margin": "0.2"}}


@pytest.mark.parametrize("text", ["latency", '{"latency": "0.2"}', '{"latency": {"margin": 0.2}}'])
def test_other_settings_of_schedulers_are_refused(monkeypatch, text):
    monkeypatch.setenv("MISTBOW_SCHEDULER_SETTINGS", text)
    with pytest.raises(ValidationError, match="scheduler_settings"):
        EnablerSettings()


def test_default_insights_are_found_from_any_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert RunSettings().insights.name == "host.insights"
    monkeypatch.setenv("MISTBOW_INSIGHTS", "missing.insights")
    with pytest.raises(ValidationError, match="must be a file"):
        RunSettings()
