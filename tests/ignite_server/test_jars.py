import shutil

import pytest

from ignite_server.jars import JarError, check_jars, ensure_jars, required_jars
from ignite_server.settings import IgniteSettings


@pytest.fixture
def jars(processes, tmp_path):
    """Copy the folder of Ignite's jars, after Java has fetched missing jars; return the copy."""
    original = IgniteSettings().jars_folder
    ensure_jars(original)
    return shutil.copytree(original, tmp_path / "jars")


def test_complete_folder_is_left_alone(jars, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(jars))  # without Java nothing could be fetched
    ensure_jars(jars)
    assert check_jars(jars, required_jars()) == set()


def test_complete_folder_is_only_checked_although_no_lock_can_be_opened_beside_it(jars):
    (jars.parent / "jars.lock").mkdir()
    ensure_jars(jars)
    with (jars / "h2-1.4.197.jar").open("ab") as jar:
        jar.write(b"!")
    with pytest.raises(JarError, match="is altered"):
        ensure_jars(jars)


def test_altered_jar_is_refused_by_name(jars):
    with (jars / "h2-1.4.197.jar").open("ab") as jar:
        jar.write(b"!")
    with pytest.raises(JarError, match=r"/h2-1\.4\.197\.jar is altered"):
        ensure_jars(jars)


def test_unknown_jar_is_refused_by_name(jars):
    (jars / "evil.jar").write_bytes(b"PK")
    with pytest.raises(JarError, match=r"/evil\.jar is not a jar of Ignite"):
        ensure_jars(jars)


def test_missing_jar_is_reported(jars):
    (jars / "h2-1.4.197.jar").unlink()
    assert check_jars(jars, required_jars()) == {"h2-1.4.197.jar"}
