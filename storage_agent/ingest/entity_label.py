"""The label from which the entity of a point is taken, if the sender's protocol has no entities."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class EntityLabel:
    """The rule that determines the entity of a series by the sender's labels.

    ``name``: the label that contains the entity. ``default``: the entity if the label is missing.
    """

    name: str
    default: str

    def take(self, labels: dict[str, str]) -> str:
        """Return the entity of the series with the given labels; change the labels.

        The label ``name`` remains in ``labels``, so that PromQL shows the labels that were sent. If
        the label is missing, it is added with an empty value: this value prevents PromQL from
        showing the default entity, which the sender did not set. A label named ``entityID`` is
        removed, because PromQL shows the entity under this name.

        >>> labels: dict[str, str] = {}
        >>> EntityLabel("instance", "n1").take(labels), labels
        ('n1', {'instance': ''})
        """
        if self.name == "entityID":
            return labels.pop(self.name, self.default)
        return labels.setdefault(self.name, "") or self.default
