"""Templates of MQTT topics, such as ``plant/{labels.line}/{entityID}/{metricID}``."""

import re
from dataclasses import dataclass

_LABEL = "labels."
_FIELDS = ("entityID", "metricID", "entityType", "group")
_LEVEL = re.compile(r"\{([^{}]*)\}|\+|[^{}+#\0]+")


@dataclass(frozen=True, slots=True)
class TopicTemplate:
    """Which topics are followed (``subscription``), and what their levels say of a point.

    ``levels``: the field that each level is, or none.
    """

    subscription: str
    levels: tuple[str | None, ...]

    def read(self, topic: str) -> dict[str, str] | None:
        """Return what a topic says by its levels; none if it is not of this template.

        >>> template_of("plant/{entityID}/+/{metricID}").read("plant/press-1/x/heat")
        {'entityID': 'press-1', 'metricID': 'heat'}
        """
        parts, wanted = topic.split("/"), self.subscription.split("/")
        if len(parts) != len(wanted):
            return None
        if any(want not in ("+", part) for part, want in zip(parts, wanted, strict=True)):
            return None
        return {
            field: part for part, field in zip(parts, self.levels, strict=True) if field is not None
        }


def template_of(text: str) -> TopicTemplate:
    """Return a template, in which ``template_fault`` finds nothing."""
    named = [(level, _LEVEL.fullmatch(level)) for level in text.split("/")]
    fields = tuple(found[1] if found else None for _, found in named)
    subscribed = ("+" if field else level for (level, _), field in zip(named, fields, strict=True))
    return TopicTemplate("/".join(subscribed), fields)


def template_fault(text: str) -> str | None:
    """Return what is wrong with the text of a template, if anything is.

    >>> template_fault("plant/{entity}")
    '{entity} is not known: write {entityID}, {metricID}, {entityType}, {group} or {labels.NAME}'
    """
    seen = set()
    for level in text.split("/"):
        found = _LEVEL.fullmatch(level)
        if found is None:
            return f"a level is a text, + or one {{field}}, not {level!r}"
        field = found[1]
        if field is None:
            continue
        if field not in _FIELDS and not (field.startswith(_LABEL) and field != _LABEL):
            known = ", ".join(f"{{{name}}}" for name in _FIELDS)
            return f"{{{field}}} is not known: write {known} or {{labels.NAME}}"
        if field in seen:
            return f"{{{field}}} is there twice"
        seen.add(field)
    return None
