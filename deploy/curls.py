"""The commands that ``make up`` prints: to send a point, and to follow the insight that reads it.

The commands are for a shell, and print the answers of the services. They send a token through a
pipe: the arguments of a process are visible to all users of the machine.
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
        # The end of the present second: not every `date` has milliseconds, and a point of the
        # beginning of the second could be late.
        point = f'{{"metricID": "{metric}", "entityID": "by-hand", "timestamp": \'$(date +%s)999\''
        body = f'{{"monitoring": [{point}, "val": {value:g}}}]}}'
        kind = '-H "Content-Type: application/json"'
        return f"{self._curl(self.sender)} {kind} {self.agent}/put -d '{body}'"

    def follow(self, deployment: str, insight: str) -> str:
        """Return the command that prints each new result of an insight, until it is interrupted."""
        return (
            f"{self._curl(self.reader)} -N {self.enabler}/api/insights/{deployment}"
            f"/results/follow | grep --line-buffered '\"{insight}\"'"
        )

    def _curl(self, token: str) -> str:
        trusted = f" --cacert {self.ca}" if self.ca else ""
        return f"sed 's/^/Authorization: Bearer /' {token} | curl -fsS{trusted} -H @-"
