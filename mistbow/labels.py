"""Labels as settings write them: key=value,key=value."""

from mistbow.errors import InvalidRequestError


def parse_labels(text: str) -> dict[str, str]:
    """Return labels by their names; raises ``InvalidRequestError`` for another form.

    >>> parse_labels("rack=7, floor=2")
    {'rack': '7', 'floor': '2'}
    """
    labels = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise InvalidRequestError(
                f"MISTBOW_LABELS: {part!r} is not of the form key=value",
                hint="Write them as rack=7,floor=2.",
            )
        labels[name.strip()] = value.strip()
    return labels
