"""The settings of every service, and functions that parse the values of settings."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from mistbow.auth.audiences import audience_of
from mistbow.auth.token_file import read_token_file
from mistbow.errors import InvalidRequestError
from mistbow.setting_values import MAX_NAME_CHARACTERS, check_host, is_host
from mistbow.trust_settings import TlsSettings

Durability = Literal["fsync", "log", "memory"]

IGNITE_TLS_CA = "Certificates (PEM) of the authorities of Ignite; enables TLS to Ignite."


def parse_addresses(text: str, default_port: int | None = None) -> tuple[tuple[str, int], ...]:
    """Return the addresses (host, port) in a text ``HOST:PORT,…``.

    ``default_port``: the port of an address without a port; None: each address needs a port. Raises
    ``ValueError`` if the text is malformed.
    """
    addresses = []
    for part in filter(None, (each.strip() for each in text.split(","))):
        host, colon, port = part.rpartition(":")
        if not colon and default_port is not None:
            host, port = part, str(default_port)
        # Not longer: Python converts no number of thousands of digits.
        is_port = port.isascii() and port.isdecimal() and len(port) <= 5 and 0 < int(port) < 65536
        if not is_port or not is_host(host.strip("[]")):
            raise ValueError(f"{part!r} is not of the form HOST:PORT")
        addresses.append((host, int(port)))
    return tuple(addresses)


def parse_urls(urls: str) -> list[str]:
    """Return the addresses in ``URL,URL,…`` as a list, without trailing slashes."""
    return [url.strip().rstrip("/") for url in urls.split(",") if url.strip()]


def parse_labels(text: str) -> dict[str, str]:
    """Return the labels in a text ``key=value,…``.

    Raises ``InvalidRequestError`` if the text is malformed.

    >>> parse_labels("rack=7, floor=2")
    {'rack': '7', 'floor': '2'}
    """
    labels = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise InvalidRequestError(
                f"MISTBOW_LABELS: {part!r} is not of the form key=value",
                hint="Write labels as rack=7,floor=2.",
            )
        labels[name.strip()] = value.strip()
    return labels


def _check_labels(text: str) -> str:
    try:
        parse_labels(text)
    except InvalidRequestError as error:
        raise ValueError(error.text) from None
    return text


Labels = Annotated[str, AfterValidator(_check_labels)]


def host_name(address: str) -> str:
    """Return the host name in an address, in lower case; empty: the address contains none.

    >>> host_name("https://Fog.example:8300"), host_name("n1")
    ('fog.example', 'n1')
    """
    try:
        return urlsplit(address if "://" in address else f"//{address.strip()}").hostname or ""
    except ValueError:
        return ""


def _check_urls(urls: str) -> str:
    for url in parse_urls(urls):
        _check_url(url)
    return urls


def _check_url(url: str) -> str:
    audience_of(url)
    if not is_host(host_name(url)):
        raise ValueError(f"{url} is not an address of the form http://HOST:PORT")
    return url


def own_address(setting: str, port: int) -> Callable[[dict[str, Any]], str]:
    """Return the factory of the default of a service's own address: loopback and the own port.

    ``setting``: the setting with the port, which stands before the address. ``port``: the port in
    the address if the setting is 0, which stands for any port.

    >>> own_address("agent_port", 8300)({"agent_port": 18300})
    'http://127.0.0.1:18300'
    """

    def make(settings: dict[str, Any]) -> str:
        scheme = "http" if settings.get("tls_cert") is None else "https"
        return f"{scheme}://127.0.0.1:{settings.get(setting) or port}"

    return make


Host = Annotated[str, AfterValidator(check_host)]
"""An IP address or a host name, without a port."""

NodeName = Annotated[str, Field(min_length=1, max_length=MAX_NAME_CHARACTERS)]
Region = Annotated[str, Field(max_length=MAX_NAME_CHARACTERS)]
ServiceUrl = Annotated[str, AfterValidator(_check_url)]
ServiceUrls = Annotated[str, AfterValidator(_check_urls)]


class ServiceSettings(TlsSettings):
    """The settings of every service: address, folder, log, limits, tokens."""

    own_name_settings: ClassVar[tuple[str, ...]] = ()
    """The settings that contain a name of the service itself."""

    own_url_settings: ClassVar[tuple[str, ...]] = ()
    """The settings that contain an address of the service itself."""

    home: Path = Field(default=Path(".mistbow"), description="Folder of data, logs and downloads.")
    host: Host = Field(default="127.0.0.1", description="Address to listen on.")
    host_names: str = Field(
        default="",
        description="Further host names under which clients without a token reach the service: "
        "NAME,NAME.",
    )
    log_level: Literal["debug", "info", "warning", "error"] = Field(
        default="info", description="Minimum level that is logged."
    )
    max_body_bytes: int = Field(
        default=8 * 2**20, ge=1024, le=2**31, description="Maximum size of a request's body, bytes."
    )
    body_seconds: float = Field(
        default=60.0,
        gt=0,
        le=86_400,
        description="Maximum time until a request's body is complete, seconds.",
    )
    max_requests: int = Field(
        default=256,
        ge=1,
        le=1_000_000,
        description="Maximum number of concurrent requests with one token.",
    )
    max_followers: int = Field(
        default=500,
        ge=1,
        le=1_000_000,
        description="Maximum number of concurrent requests with one token that follow or wait for "
        "rows.",
    )
    tokens_file: Path | None = Field(
        default=None, description="File of further tokens, created by mistbow token add."
    )

    own_urls: ServiceUrls = Field(
        default="",
        description="Further addresses at which other services reach this service: URL,URL.",
    )

    @field_validator("host_names")
    @classmethod
    def _check_host_names(cls, names: str) -> str:
        for part in names.split(","):
            if part.strip() and not is_host(host_name(part)):
                raise ValueError(f"{part.strip()!r} is not a host name; write NAME,NAME")
        return names

    @field_validator("tokens_file")
    @classmethod
    def _check_tokens_file(cls, file: Path | None, info: ValidationInfo) -> Path | None:
        if file is None:
            return None
        if info.data.get("token", "") is None and info.data.get("identity_file", "") is None:
            raise ValueError(
                "MISTBOW_TOKENS_FILE also needs MISTBOW_IDENTITY_FILE, MISTBOW_TOKEN or "
                "MISTBOW_TOKEN_FILE: services authenticate each other by one of these"
            )
        try:
            read_token_file(file)
        except InvalidRequestError as error:
            raise ValueError(error.text) from None
        return file

    @property
    def own_names(self) -> frozenset[str]:
        """The host names that a user gave to the service, in lower case."""
        # Not the host name of the machine, which is a default: other machines could imitate it.
        texts = self._given(*self.own_name_settings, *self.own_url_settings)
        return frozenset(filter(None, map(host_name, [*texts, *self.host_names.split(",")])))

    @property
    def own_addresses(self) -> list[str]:
        """The addresses that a user gave to the service."""
        # Not a default: it is on loopback, where other machines have other services.
        return [*self._given(*self.own_url_settings), *parse_urls(self.own_urls)]

    def _given(self, *names: str) -> list[str]:
        """Return the values of these settings that a user has set."""
        return [getattr(self, name) for name in names if name in self.model_fields_set]
