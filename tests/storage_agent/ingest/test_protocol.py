"""The generated modules of Protobuf messages correspond to the definitions of the messages."""

import shutil
from pathlib import Path

import pytest

from storage_agent.ingest.protocol import generate

pytestmark = pytest.mark.usefixtures("processes")


def test_generated_messages_are_up_to_date() -> None:
    assert generate.stale() == []


def test_changed_message_is_detected(tmp_path: Path) -> None:
    for module in generate.MODULES[1:]:
        shutil.copy(generate.HERE / module, tmp_path)
    assert generate.stale(tmp_path) == [generate.MODULES[0]]
