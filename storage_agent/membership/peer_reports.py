"""The reports about peers that an agent sends in heartbeats: only those that the receiver lacks."""

from itertools import islice, takewhile

from storage_agent.membership.heartbeat import PeerReport

MAX_CHANGES = 32
"""The maximum number of reports for a peer that does not request all of them."""


class PeerReports:
    """The current report about each peer, each with the version at which it last changed."""

    def __init__(self) -> None:
        self.version = 0
        """A number that increases with each change; 0: there was no report yet."""
        self._reports: dict[str, tuple[int, PeerReport]] = {}
        self._removed_at = 0

    def set(self, report: PeerReport) -> None:
        """Replace the report about a peer; a new latency alone is not a change."""
        _, before = self._reports.get(report.site, (0, None))
        if before is None or _key(before) != _key(report):
            self.version += 1
            # The newest reports are last, so that ``after`` can stop at the first older report.
            self._reports.pop(report.site, None)
            self._reports[report.site] = self.version, report

    def remove(self, site: str) -> None:
        """Remove the report about a peer."""
        if self._reports.pop(site, None) is not None:
            self.version += 1
            self._removed_at = self.version

    def after(self, version: int, *, wants_all: bool) -> tuple[int, tuple[PeerReport, ...]]:
        """Return the reports that changed after a version, the newest first, and this version.

        The returned version is 0 if these are all reports: the receiver has none, or has one that
        was removed. ``wants_all``: False: return at most ``MAX_CHANGES`` changes, and none to a
        receiver without reports. If changes are omitted, the returned version is the present one: a
        receiver that needs all changes then ignores them.
        """
        since = version if version >= self._removed_at else 0
        changed = takewhile(lambda each: each[0] > since, reversed(self._reports.values()))
        newer = (report for _, report in changed)
        if wants_all:
            return since, tuple(newer)
        changes = tuple(islice(newer, MAX_CHANGES + 1)) if since else ()
        if since and len(changes) <= MAX_CHANGES:
            return since, changes
        return self.version, changes[:MAX_CHANGES]


def _key(report: PeerReport) -> tuple[str, str, bool]:
    return report.node, report.url, report.reached
