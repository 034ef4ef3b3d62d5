"""The committed messages are those that protoc makes."""

import shutil
from pathlib import Path

from storage_agent.ingest.protocol import generate


def test_generated_messages_are_up_to_date() -> None:
    assert generate.stale() == []


def test_a_changed_message_is_noticed(tmp_path: Path) -> None:
    for module in generate.MODULES[1:]:
        shutil.copy(generate.HERE / module, tmp_path)
    assert generate.stale(tmp_path) == [generate.MODULES[0]]
