import shutil

import pytest

from mistbow.ignite.jars import JarError, check_jars, ensure_jars, wanted_jars
from mistbow.settings import IgniteSettings


@pytest.fixture
def jars(tmp_path):
    """A copy of Ignite's jars."""
    original = IgniteSettings().jars_folder
    ensure_jars(original)
    return shutil.copytree(original, tmp_path / "jars")


def test_complete_folder_is_left_alone(jars, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(jars))  # without Java nothing could be fetched
    ensure_jars(jars)
    assert check_jars(jars, wanted_jars()) == set()


def test_altered_jar_is_refused_by_name(jars):
    with (jars / "h2-1.4.197.jar").open("ab") as jar:
        jar.write(b"!")
    with pytest.raises(JarError, match=r"altered jar: .*/h2-1\.4\.197\.jar"):
        ensure_jars(jars)


def test_unknown_jar_is_refused_by_name(jars):
    (jars / "evil.jar").write_bytes(b"PK")
    with pytest.raises(JarError, match=r"unknown jar: .*/evil\.jar"):
        ensure_jars(jars)


def test_missing_jar_is_told(jars):
    (jars / "h2-1.4.197.jar").unlink()
    assert check_jars(jars, wanted_jars()) == {"h2-1.4.197.jar"}
