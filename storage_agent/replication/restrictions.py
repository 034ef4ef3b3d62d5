"""The restrictions of a site: which of the site's data may not leave certain sites or regions."""

from collections.abc import Iterable

from mistbow.client.operation_model import Restriction, SeriesFilter
from mistbow.errors import InvalidRequestError
from storage_agent.http.decode import decode_body
from storage_agent.membership.fabric_membership import FabricMembership
from storage_agent.membership.facts import RESTRICTIONS, site_fact
from storage_agent.replication.facts import RESTRICTIONS_DECODER, restrictions_of


class SiteRestrictions:
    """The restrictions on the data of this site.

    ``fixed``: the restrictions in the settings. ``declared``: the restrictions that users declared
    through the API.
    """

    def __init__(self, settings: str, membership: FabricMembership) -> None:
        self.fixed = parse_restrictions(settings.encode()) if settings else ()
        self._membership = membership
        self.declared: tuple[Restriction, ...] = ()

    def open(self) -> None:
        """Read the declared restrictions from the facts of this site."""
        self.declared = restrictions_of(self._membership.facts_of(self._membership.site))

    def declare(self, restrictions: tuple[Restriction, ...]) -> None:
        """Replace the declared restrictions by ``restrictions``, and publish the new ones."""
        self.declared = restrictions
        self._membership.publish(RESTRICTIONS, restrictions or None)

    def all(self) -> tuple[Restriction, ...]:
        """Return the fixed and the declared restrictions."""
        return self.fixed + self.declared

    def withheld(
        self, target: str, declared: tuple[Restriction, ...] | None = None
    ) -> tuple[SeriesFilter, ...]:
        """Return filters that match the series which the site ``target`` may not receive.

        If ``target`` is unknown, its region counts as unknown too. ``declared``: restrictions to
        apply in place of the declared restrictions; None: apply the declared restrictions.
        """
        about = site_fact(self._membership.facts_of(target))
        restrictions = self.all() if declared is None else self.fixed + declared
        return withheld_from(restrictions, target, "" if about is None else about.region)


def withheld_from(
    restrictions: Iterable[Restriction], site: str, region: str
) -> tuple[SeriesFilter, ...]:
    """Return filters that match the series which a site in a region may not receive.

    ``region``: empty if the region of the site is unknown.
    """
    return tuple(
        each.match
        for each in restrictions
        if site not in each.stay_in and not (region and region in each.stay_in)
    )


def parse_restrictions(text: bytes) -> tuple[Restriction, ...]:
    """Return the restrictions in a JSON text.

    Raises ``InvalidRequestError``, which names the invalid item.
    """
    try:
        return decode_body(RESTRICTIONS_DECODER, text)
    except InvalidRequestError as error:
        raise InvalidRequestError(
            f"restrictions: {error.message}",
            hint='A restriction is {"match": {"metric": […], "entity": […], "group": […], '
            '"labels": {"name": […]}}, "stay_in": ["region or site"]}.',
        ) from error
