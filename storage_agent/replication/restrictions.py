"""What the user declares of data that may not leave a region or a site."""

from collections.abc import Iterable

import msgspec

from mistbow.errors import InvalidRequestError
from storage_agent.fabric.facts import site_facts
from storage_agent.fabric.member import Member
from storage_agent.monitoring.bodies import read_body
from storage_agent.replication.filters import SeriesFilter
from storage_agent.replication.told import RULES_KEY, Rule, rules_of

_RULES = msgspec.json.Decoder(tuple[Rule, ...])


class Restrictions:
    """The rules of the settings, which always hold, and those that were declared at run time."""

    def __init__(self, settings: str, member: Member) -> None:
        self.fixed = read_rules(settings.encode()) if settings else ()
        self._member = member
        self.declared: tuple[Rule, ...] = ()

    def open(self) -> None:
        """Recover what was declared."""
        self.declared = rules_of(self._member.told_by(self._member.site))

    def declare(self, rules: tuple[Rule, ...]) -> None:
        """Replace what was declared."""
        self.declared = rules
        self._member.tell(RULES_KEY, rules or None)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """All rules that hold."""
        return self.fixed + self.declared

    def withheld(
        self, target: str, declared: tuple[Rule, ...] | None = None
    ) -> tuple[SeriesFilter, ...]:
        """Return what a site may not have; one of which nothing was heard is in no region.

        ``declared``: were these declared.
        """
        about = site_facts(self._member.told_by(target))
        rules = self.rules if declared is None else self.fixed + declared
        return withheld(rules, target, "" if about is None else about.region)


def withheld(rules: Iterable[Rule], site: str, region: str) -> tuple[SeriesFilter, ...]:
    """Return what a site in a region may not have."""
    return tuple(
        rule.match
        for rule in rules
        if site not in rule.stay_in and not (region and region in rule.stay_in)
    )


def read_rules(text: bytes) -> tuple[Rule, ...]:
    """Read rules from JSON; raises ``InvalidRequestError`` that says which is wrong."""
    try:
        return read_body(_RULES, text)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"restrictions: {error.message}",
            hint='A rule is {"match": {"metric": […], "entity": […], "group": […], '
            '"labels": {"name": […]}}, "stay_in": ["region or site"]}.',
        ) from error
