"""The reports about peers that an agent sends in heartbeats: only those that the receiver lacks."""

from storage_agent.membership.heartbeat import PeerReport


class PeerReports:
    """The current report about each peer, each with the version at which it last changed."""

    def __init__(self) -> None:
        self.version = 0
        """A number that increases with each change; 0: there was no report yet."""
        self._reports: dict[str, tuple[int, PeerReport]] = {}

    def set(self, report: PeerReport) -> None:
        """Replace the report about a peer; a new latency alone is not a change."""
        _, before = self._reports.get(report.site, (0, None))
        if before is None or _key(before) != _key(report):
            self.version += 1
            # The newest reports are last, so that ``since`` can stop at the first older report.
            self._reports.pop(report.site, None)
            self._reports[report.site] = self.version, report

    def remove(self, site: str) -> None:
        """Remove the report about a peer."""
        self._reports.pop(site, None)

    def since(self, version: int) -> tuple[PeerReport, ...]:
        """Return the reports that changed after a version, the newest first; 0: all reports."""
        newer = []
        for changed, report in reversed(self._reports.values()):
            if changed <= version:
                break
            newer.append(report)
        return tuple(newer)


def _key(report: PeerReport) -> tuple[str, str, bool]:
    return report.node, report.url, report.reached
