"""The commands that ``make up`` prints: to send a point, and to follow the insight that reads it.

The commands are for a shell, and print the answers of the services.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Curls:
    """Commands for a shell, which send the token in a file.

    ``agent``, ``enabler``: the addresses of the services. ``sender``, ``reader``: the files with
    the tokens for the agent and for the enabler. ``ca``: the file with the authorities to trust;
    empty: the services have no TLS.
    """

    agent: str
    enabler: str
    sender: str
    reader: str
    ca: str = ""

    def post(self, metric: str, value: float) -> str:
        """Return the command that sends a point of the present time to the agent."""
        point = f'{{"metricID": "{metric}", "entityID": "by-hand", "timestamp": \'$(date +%s%3N)\''
        body = f'{{"monitoring": [{point}, "val": {value:g}}}]}}'
        kind = '-H "Content-Type: application/json"'
        return f"curl -fsS {self._options(self.sender)} {kind} {self.agent}/put -d '{body}'"

    def follow(self, deployment: str, insight: str) -> str:
        """Return the command that prints each new result of an insight, until it is interrupted."""
        return (
            f"curl -fsSN {self._options(self.reader)} {self.enabler}/api/insights/{deployment}"
            f"/results/follow | grep --line-buffered '\"{insight}\"'"
        )

    def _options(self, token: str) -> str:
        trusted = f"--cacert {self.ca} " if self.ca else ""
        return f'{trusted}-H "Authorization: Bearer $(cat {token})"'
