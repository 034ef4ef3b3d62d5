"""The class archive of Ignite's JVM: for which Java and which jars it is."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from rich.console import Console

from ignite_server import class_archive as preparation
from ignite_server.config import archive_options, class_archive, class_path


def jars_in(folder: Path, *names: str) -> Path:
    folder.mkdir()
    for name in names:
        (folder / name).touch()
    return folder


def test_class_path_has_the_same_order_in_each_folder(tmp_path: Path) -> None:
    one = jars_in(tmp_path / "one", "b.jar", "a.jar", "old.jsa")
    assert class_path(one) == ["-cp", f"{one}/a.jar:{one}/b.jar"]


def test_archive_is_of_one_java_and_one_class_path(tmp_path: Path) -> None:
    java, other_java = tmp_path / "java", tmp_path / "other"
    java.touch()
    other_java.touch()
    jars = jars_in(tmp_path / "jars", "a.jar")
    archive = class_archive(java, jars)
    assert archive.parent == jars
    assert archive == class_archive(java, jars)
    assert archive != class_archive(other_java, jars)
    (jars / "b.jar").touch()
    assert archive != class_archive(java, jars)


def test_java_uses_an_archive_that_exists(tmp_path: Path) -> None:
    archive = tmp_path / "ignite.jsa"
    assert archive_options(archive) == []
    archive.touch()
    assert f"-XX:SharedArchiveFile={archive}" in archive_options(archive)


def test_archive_replaces_a_former_one_that_another_process_removes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java"
    java.touch()
    jars = jars_in(tmp_path / "jars", "a.jar", "ignite-old.jsa")
    find = Path.glob

    def find_removed(folder: Path, pattern: str) -> Iterator[Path]:
        for found in find(folder, pattern):
            if found.suffix == ".jsa":
                found.unlink()
            yield found

    monkeypatch.setattr(Path, "glob", find_removed)
    monkeypatch.setattr(preparation, "find_java", lambda: java)
    monkeypatch.setattr(preparation, "_record", lambda _, archive: archive.touch())
    preparation.ensure_class_archive(jars, Console(quiet=True))
    assert [each.name for each in jars.iterdir() if each.suffix == ".jsa"] == [
        class_archive(java, jars).name
    ]


def test_no_archive_is_recorded_in_a_folder_that_cannot_be_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java = tmp_path / "java"
    java.touch()
    jars = jars_in(tmp_path / "jars", "a.jar")
    monkeypatch.setattr(preparation, "find_java", lambda: java)
    monkeypatch.setattr(preparation, "_record", lambda _, archive: archive.touch())
    # Root may write to a folder without the permission, but not on a file system that is read-only.
    monkeypatch.setattr(os, "access", lambda path, mode: path != jars)
    preparation.ensure_class_archive(jars, Console(quiet=True))
    assert [each.name for each in jars.iterdir()] == ["a.jar"]
