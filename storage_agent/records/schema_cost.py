"""The cost of a JSON Schema: how many of its parts a validator applies along one path of a value.

References can apply a part very often: 40 definitions, each with two references to the previous
one, apply the first definition a trillion times. The validator cannot be interrupted, so such a
schema would stop the agent.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from urllib.parse import unquote, urldefrag, urljoin

from mistbow.errors import InvalidRequestError

MAX_COST = 100_000
"""The maximum cost; validating the deepest value takes about a millisecond then."""

# Keywords whose schemas apply to the value itself.
_OF_VALUE = (
    *("allOf", "anyOf", "oneOf", "not", "if", "then", "else"),
    *("dependentSchemas", "dependencies", "propertyNames"),
)
# A field or an item is described by one of the first keywords, and by all of the second ones.
_OF_FIELD = ("properties", "additionalProperties", "unevaluatedProperties"), ("patternProperties",)
_OF_ITEM = ("prefixItems", "items", "additionalItems", "unevaluatedItems"), ("contains",)
_BY_NAME = ("properties", "patternProperties", "dependentSchemas", "dependencies")
_UNEVALUATED = ("unevaluatedProperties", "unevaluatedItems")


def check_cost(schema: object, max_depth: int) -> None:
    """Raise ``InvalidRequestError`` if the cost of a schema exceeds ``MAX_COST``.

    ``max_depth``: the maximum nesting of the values that the schema describes.

    >>> check_cost({"properties": {"left": {"$ref": "#"}, "right": {"$ref": "#"}}}, 32)
    """
    _Cost(schema).of(schema, max_depth)


class _References:
    """The schemas that references in a document name."""

    def __init__(self, document: object) -> None:
        self._bases: dict[int, str] = {}
        self._resources: dict[str, object] = {"": document}
        self._anchors: dict[tuple[str, str], object] = {}
        self._dynamic: dict[str, list[object]] = {}
        self._collect(document)

    def targets(self, schema: Mapping[str, Any]) -> Iterator[tuple[object, ...]]:
        """Yield for each reference in a schema the schemas that the reference may name."""
        base = self._bases[id(schema)]
        if isinstance(reference := schema.get("$ref"), str):
            yield tuple(self._find(base, reference))
        if isinstance(reference := schema.get("$dynamicRef"), str):
            named = self._dynamic.get(urldefrag(reference).fragment, ())
            yield (*named, *self._find(base, reference))
        if "$recursiveRef" in schema:
            yield tuple(self._find(base, "#"))

    def _collect(self, document: object) -> None:
        waiting: list[tuple[object, str]] = [(document, "")]
        while waiting:
            node, base = waiting.pop()
            if isinstance(node, dict):
                if isinstance(name := node.get("$id"), str):
                    base = urldefrag(urljoin(base, name)).url
                    self._resources[base] = node
                self._bases[id(node)] = base
                for keyword in ("$anchor", "$dynamicAnchor"):
                    if isinstance(anchor := node.get(keyword), str):
                        self._anchors[base, anchor] = node
                if isinstance(anchor := node.get("$dynamicAnchor"), str):
                    self._dynamic.setdefault(anchor, []).append(node)
                waiting += [(each, base) for each in node.values()]
            elif isinstance(node, list):
                waiting += [(each, base) for each in node]

    def _find(self, base: str, reference: str) -> Iterator[object]:
        url, fragment = urldefrag(reference)
        # A base such as urn:x cannot be joined.
        resource = self._resources.get(urljoin(base, url) if url else base)
        fragment = unquote(fragment)
        if fragment and not fragment.startswith("/"):
            resource = self._anchors.get((urljoin(base, url) if url else base, fragment))
        elif fragment:
            resource = _at(resource, fragment)
        if resource is not None:
            yield resource


def _at(node: object, pointer: str) -> object:
    """Return the value at a JSON pointer in a document; None: no value."""
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        if isinstance(node, dict):
            node = node.get(name)
        elif isinstance(node, list) and name.isdecimal() and int(name) < len(node):
            node = node[int(name)]
        else:
            return None
    return node


class _Cost:
    """Computes the cost of the parts of one document."""

    def __init__(self, document: object) -> None:
        self._references = _References(document)
        self._known: dict[tuple[int, int], int] = {}

    def of(self, schema: object, depth: int) -> int:
        """Return the cost of a schema for a value with up to ``depth`` further levels.

        Raises ``InvalidRequestError`` if the cost exceeds the maximum.
        """
        if not isinstance(schema, dict):
            return 1
        key = id(schema), depth
        if key in self._known:
            return self._known[key]
        self._known[key] = 0  # the validator ends a circle of references
        of_value = sum(self.of(each, depth) for name in _OF_VALUE for each in _parts(schema, name))
        for targets in self._references.targets(schema):
            of_value += max((self.of(each, depth) for each in targets), default=0)
        if any(name in schema for name in _UNEVALUATED):
            of_value *= 2  # once more, to find out what is evaluated
        of_part = 0
        if depth:
            # A value is an object or an array.
            of_part = max(self._of_part(schema, depth - 1, *each) for each in (_OF_FIELD, _OF_ITEM))
        cost = 1 + of_value + of_part
        if cost > MAX_COST:
            raise InvalidRequestError(
                f"schema: its references apply more than {MAX_COST} of its parts to one value",
                hint="Remove references that lead to the same definition by many paths.",
            )
        self._known[key] = cost
        return cost

    def _of_part(
        self, schema: Mapping[str, Any], depth: int, one_of: Sequence[str], all_of: Sequence[str]
    ) -> int:
        first, further = (
            [self.of(each, depth) for name in names for each in _parts(schema, name)]
            for names in (one_of, all_of)
        )
        return max(first, default=0) + sum(further)


def _parts(schema: Mapping[str, Any], keyword: str) -> Iterable[object]:
    """Return the schemas of a keyword: a schema, a list, or an object of schemas by names."""
    value = schema.get(keyword)
    if isinstance(value, list):
        return value
    if isinstance(value, dict) and keyword in _BY_NAME:
        return value.values()
    return () if value is None else (value,)
