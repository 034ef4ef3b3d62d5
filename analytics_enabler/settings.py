"""The settings of the analytics enabler."""

from typing import Annotated

from pydantic import AfterValidator, Field, Json, ValidationInfo, field_validator

from mistbow.domains import DEFAULT_DOMAIN, Selector, check_domain
from mistbow.settings import Labels, ServiceSettings, ServiceUrl, own_address, parse_labels
from mistbow.site_names import is_site_name
from mistbow.timestamps import TimestampUnit
from mistbow.trust_settings import read_credential


class EnablerSettings(ServiceSettings):
    """The settings of the analytics enabler."""

    service_kind = "enabler"
    own_url_settings = ("enabler_url",)

    enabler_port: int = Field(default=8000, ge=0, le=65535, description="Port of the enabler.")
    agent_url: ServiceUrl = Field(
        default="http://127.0.0.1:8300", description="Storage agent of this site."
    )
    enabler_url: ServiceUrl = Field(
        default_factory=own_address("enabler_port", 8000),
        description="Address of this enabler for other services.",
    )
    domain: Annotated[str, AfterValidator(check_domain)] = Field(
        default=DEFAULT_DOMAIN,
        validate_default=True,
        description="Domain of this enabler: the name of a set of sites.",
    )

    @field_validator("domain")
    @classmethod
    def _check_domain_of_identity(cls, domain: str, info: ValidationInfo) -> str:
        found = read_credential(info)
        if found is not None and not found.may_plan(domain):
            raise ValueError(
                f"the domain {domain} does not belong to the identity {found.name}, which reaches "
                f"{', '.join(found.reached_sites)}; issue the identity enabler-{domain}, or set "
                "MISTBOW_DOMAIN to the domain of this identity"
            )
        return domain

    domain_sites: str = Field(
        default="", description="Sites of the domain: NAME,NAME; if empty, all sites."
    )
    domain_labels: Labels = Field(
        default="",
        description="Labels of further sites of the domain, and region: key=value,key=value.",
    )
    scheduler: str = Field(
        default="fair", description="Scheduler of insights that do not name a scheduler."
    )
    scheduler_settings: Json[dict[str, dict[str, str]]] = Field(
        default="{}",  # type: ignore[arg-type]  # decoded like a value from the environment
        description='Settings of schedulers, as JSON: {"SCHEDULER": {"KEY": "VALUE"}}.',
    )
    timestamp_unit: TimestampUnit = Field(
        default="ms",
        description="Times of requests that look like seconds, microseconds or nanoseconds: "
        "refuse them (ms), convert them (auto), or accept every number as ms (unchecked).",
    )
    patience_ms: int = Field(
        default=5000,
        ge=0,
        le=86_400_000,
        description="Time for which results wait for a silent site, milliseconds.",
    )

    grafana_url: ServiceUrl | None = Field(
        default=None,
        description="Address of Grafana, to which the console links.",
    )

    pages: bool = Field(
        default=True,
        description="Whether the enabler serves the web pages of installed packages, such as the "
        "console.",
    )

    @field_validator("domain_sites")
    @classmethod
    def _check_sites(cls, names: str, info: ValidationInfo) -> str:
        found = read_credential(info)
        for name in filter(None, map(str.strip, names.split(","))):
            if not is_site_name(name):
                raise ValueError(
                    f"{name!r} is not a valid name of a site: write lower-case letters, digits, . "
                    "and -"
                )
            if found is not None and not found.reaches(name):
                raise ValueError(
                    f"the identity {found.name} does not reach the site {name}; issue it again "
                    f"with --reach {name}"
                )
        return names

    @property
    def selector(self) -> Selector:
        """The sites of the domain, by the present reach of the identity.

        Raises ``UnauthorizedError`` if the identity is not valid at present.
        """
        names = (name.strip() for name in self.domain_sites.split(","))
        labels = parse_labels(self.domain_labels)
        within = () if self.identity is None else self.identity.current().credential.reached_sites
        return Selector(sites=tuple(filter(None, names)), labels=labels, within=within)
