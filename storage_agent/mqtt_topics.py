"""Templates of MQTT topics, such as ``plant/{labels.line}/{entityID}/{metricID}``."""

import re
from dataclasses import dataclass

_LABEL = "labels."
_FIELDS = ("entityID", "metricID", "entityType", "group")
_LEVEL = re.compile(r"\{([^{}]*)\}|\+|[^{}+#\0]+")


@dataclass(frozen=True, slots=True)
class TopicTemplate:
    """A parsed template of MQTT topics.

    ``subscription``: the topic filter that is sent to the broker. ``levels``: for each level of a
    topic, the name of the field of a point that the level contains, or None for a level without a
    field.
    """

    subscription: str
    levels: tuple[str | None, ...]

    def read(self, topic: str) -> dict[str, str] | None:
        """Return the fields in a topic: name of the field -> text; None: the topic does not match.

        >>> template_of("plant/{entityID}/+/{metricID}").read("plant/press-1/x/heat")
        {'entityID': 'press-1', 'metricID': 'heat'}
        """
        levels = self.subscription.split("/")
        # A topic of a hostile broker may have 65,535 levels.
        parts = topic.split("/", len(levels))
        if len(parts) != len(levels):
            return None
        if any(level not in ("+", part) for part, level in zip(parts, levels, strict=True)):
            return None
        return {
            field: part for part, field in zip(parts, self.levels, strict=True) if field is not None
        }


def template_of(text: str) -> TopicTemplate:
    """Parse the text of a template; ``template_fault`` must have found no error in the text."""
    named = [(level, _LEVEL.fullmatch(level)) for level in text.split("/")]
    fields = tuple(found[1] if found else None for _, found in named)
    subscribed = ("+" if field else level for (level, _), field in zip(named, fields, strict=True))
    return TopicTemplate("/".join(subscribed), fields)


def template_fault(text: str) -> str | None:
    """Return a message about the error in a template's text; None: the text is valid.

    >>> template_fault("plant/{entity}")
    '{entity} is not known: write {entityID}, {metricID}, {entityType}, {group} or {labels.NAME}'
    """
    seen = set()
    for level in text.split("/"):
        found = _LEVEL.fullmatch(level)
        if found is None:
            return f"a level must be a text, + or a single {{field}} (got {level!r})"
        field = found[1]
        if field is None:
            continue
        if field not in _FIELDS and not (field.startswith(_LABEL) and field != _LABEL):
            names = ", ".join(f"{{{name}}}" for name in _FIELDS)
            return f"{{{field}}} is not known: write {names} or {{labels.NAME}}"
        if field in seen:
            return f"{{{field}}} occurs twice"
        seen.add(field)
    return None
