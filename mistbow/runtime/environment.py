"""The environment variables that a child process inherits."""

import os
from collections.abc import Collection

_SECRETS = frozenset(
    {
        "MISTBOW_TOKEN",
        "MISTBOW_TOKEN_FILE",
        "MISTBOW_MQTT_URL",
        "MISTBOW_IGNITE_KEYSTORE_PASSWORD",
    }
)


def inherited_environment(names: Collection[str] | None = None) -> dict[str, str]:
    """Return the environment of this process for a child process, without Mistbow's secrets.

    The environment is no security boundary: a child process runs as the same user. ``names``: the
    variables that the child inherits, if they are set; None: all variables.
    """
    return {
        name: value
        for name, value in os.environ.items()
        if name not in _SECRETS and (names is None or name in names)
    }
