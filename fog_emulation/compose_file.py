"""Reads compose files as compose does: a key that is given twice is an error."""

from pathlib import Path
from typing import Any

import yaml

from mistbow.errors import InvalidRequestError


class _Loader(yaml.SafeLoader):
    """Refuses repeated keys and anchors that contain themselves, which YAML's loader accepts."""

    def __init__(self, stream: str) -> None:
        super().__init__(stream)
        self._open: list[str] = []

    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        event: Any = self.peek_event()  # type: ignore[no-untyped-call]
        anchor = event.anchor
        if isinstance(event, yaml.AliasEvent) and anchor in self._open:
            raise yaml.MarkedYAMLError(
                problem=f"the anchor {anchor} contains itself",
                problem_mark=event.start_mark,  # type: ignore[arg-type]
            )
        self._open.append(anchor)
        node = super().compose_node(parent, index)
        self._open.pop()
        return node

    def compose_mapping_node(self, anchor: dict[Any, yaml.Node]) -> yaml.MappingNode:
        node = super().compose_mapping_node(anchor)
        seen = set()
        for key, _ in node.value:
            if isinstance(key, yaml.ScalarNode) and key.value in seen and key.value != "<<":
                raise yaml.MarkedYAMLError(
                    problem=f"the key {key.value} is given twice", problem_mark=key.start_mark
                )
            seen.add(key.value if isinstance(key, yaml.ScalarNode) else None)
        return node


def read_compose(path: Path) -> str:
    """Return the text of a compose file; raises ``InvalidRequestError`` if it is not a text."""
    try:
        return path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidRequestError(f"{path} is not a text in UTF-8: {error.reason}") from error


def parse_compose(text: str) -> Any:
    """Return the content of a compose file; raises ``InvalidRequestError`` for invalid YAML."""
    try:
        return yaml.load(text, _Loader)  # noqa: S506 - a safe loader
    except yaml.YAMLError as error:
        raise InvalidRequestError(f"the file is not valid YAML: {error}") from error
