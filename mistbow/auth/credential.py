"""Credentials of services: who a service is, signed by the fog's key (Ed25519, RFC 8032).

The text of a credential is ``PAYLOAD.SIGNATURE``, both in base64url. The payload is JSON, and
contains the public key of the service.
"""

import base64
import binascii
import secrets
from collections.abc import Collection
from datetime import datetime
from typing import Annotated, Literal

import msgspec
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from msgspec import Meta

from mistbow.errors import InvalidRequestError, UnauthorizedError
from mistbow.site_names import RULE, is_site_name

Kind = Literal["agent", "worker", "enabler", "monitor"]
"""The kinds of services."""

EVERYWHERE = "*"
"""The entry of ``Credential.reach`` that stands for all sites."""

MAX_TEXT_BYTES = 2048
"""The maximum length of a credential as text."""

_CONTEXT = b"mistbow credential 1\n"

Name = Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$")]
SiteName = Annotated[str, Meta(min_length=1, max_length=253)]
PublicKey = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]


class Credential(msgspec.Struct, frozen=True, forbid_unknown_fields=True, omit_defaults=True):
    """The name, the kind and the site of a service, and its public key.

    ``id``: random; identifies the credential in a list of revoked ones. ``reach``: the further
    sites at which the service has its rights, or ``*`` for all sites.
    """

    name: Name
    kind: Kind
    site: SiteName
    id: Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
    key: PublicKey
    expires: Annotated[datetime, Meta(tz=True)]
    reach: Annotated[tuple[SiteName, ...], Meta(max_length=100)] = ()

    def reaches(self, site: str) -> bool:
        """Return whether a site is the service's own, or in its reach.

        >>> from mistbow.clock import utc_now
        >>> edge = Credential("e", "agent", "edge", "0" * 32, "0" * 64, utc_now(), ("hub",))
        >>> edge.reaches("edge"), edge.reaches("hub"), edge.reaches("cloud")
        (True, True, False)
        """
        return site == self.site or site in self.reach or self.reaches_all

    @property
    def reaches_all(self) -> bool:
        """Whether the service has its rights at all sites."""
        return EVERYWHERE in self.reach

    @property
    def reached_sites(self) -> tuple[str, ...]:
        """The sites at which the service has its rights; empty: all sites."""
        return () if self.reaches_all else (self.site, *self.reach)

    def covers(self, other: "Credential") -> bool:
        """Return whether the service reaches all sites that another service reaches.

        >>> from mistbow.clock import utc_now
        >>> hub = Credential("h", "agent", "h", "0" * 32, "0" * 64, utc_now(), ("a",))
        >>> a, b = (Credential(s, "agent", s, "1" * 32, "1" * 64, utc_now()) for s in "ab")
        >>> hub.covers(a), hub.covers(b), a.covers(hub)
        (True, False, False)
        """
        sites = (other.site, *other.reach)
        return self.reaches_all or (not other.reaches_all and all(map(self.reaches, sites)))

    def may_plan(self, domain: str) -> bool:
        """Return whether a domain belongs to the enabler.

        It does if the enabler reaches all sites, or if its name is the domain, ``enabler-DOMAIN``
        or ``enabler-DOMAIN.ANY``, since several enablers of a domain need different names.

        >>> from mistbow.clock import utc_now
        >>> one = Credential("enabler-n.1", "enabler", "a", "0" * 32, "0" * 64, utc_now(), ("b",))
        >>> one.may_plan("n"), one.may_plan("n-1"), one.may_plan("all")
        (True, False, False)

        If the name begins with the enabler's site, the domain is this site, also if it has dots:

        >>> dotted = Credential("enabler-n.1", "enabler", "n.1", "0" * 32, "0" * 64, utc_now())
        >>> dotted.may_plan("n"), dotted.may_plan("n.1")
        (False, True)
        """
        rest = self.name.removeprefix("enabler-")
        is_of_site = f"{rest}.".startswith(f"{self.site}.")
        own = self.site if is_of_site else rest.partition(".")[0]
        return self.reaches_all or domain == own

    @property
    def is_confined(self) -> bool:
        """Whether the service has its rights at its own site only."""
        return not self.reach


_PAYLOAD = msgspec.json.Decoder(Credential)


def issue(
    fog_key: Ed25519PrivateKey,
    *,
    name: str,
    kind: str,
    site: str,
    key: Ed25519PublicKey,
    expires: datetime,
    reach: Collection[str] = (),
) -> str:
    """Return a credential as text, signed by the fog's key.

    Raises ``InvalidRequestError`` if the name, the kind or a site is invalid.
    """
    for each in (site, *(each for each in reach if each != EVERYWHERE)):
        if not is_site_name(each):
            raise InvalidRequestError(f"{each!r} is not the name of a site", hint=RULE)
    content = {
        "name": name,
        "kind": kind,
        "site": site,
        "id": secrets.token_hex(16),
        "key": key.public_bytes_raw().hex(),
        "expires": expires,
        "reach": sorted(set(reach) - {site}),
    }
    try:
        payload = msgspec.json.encode(msgspec.convert(content, Credential))
    except msgspec.ValidationError as error:
        raise InvalidRequestError(f"the credential {name!r} is invalid: {error}") from None
    text = f"{_text(payload)}.{_text(fog_key.sign(_CONTEXT + payload))}"
    if len(text) > MAX_TEXT_BYTES:
        raise InvalidRequestError(
            f"the credential {name!r} reaches too many sites", hint=f"Use {EVERYWHERE} for all."
        )
    return text


def verify(text: str, fog_keys: Collection[str], now: datetime) -> Credential:
    """Return the content of a credential that one of the fog's keys has signed.

    ``fog_keys``: public keys (hexadecimal). Raises ``UnauthorizedError`` if the text is no
    credential, if no key has signed it, or if it has expired.
    """
    credential = read_signed(text, fog_keys)
    if credential.expires <= now:
        raise UnauthorizedError(
            f"the credential of the {credential.kind} {credential.name} expired on "
            f"{credential.expires:%Y-%m-%d}",
            hint="Issue it again: mistbow identity issue",
        )
    return credential


def read_signed(text: str, fog_keys: Collection[str]) -> Credential:
    """Return the content of a credential as ``verify`` does, also if it has expired."""
    try:
        payload, signature = (_bytes(part) for part in text.split("."))
    except (ValueError, binascii.Error):
        raise UnauthorizedError("the credential is malformed") from None
    if not any(_is_signed_by(key, payload, signature) for key in fog_keys):
        raise UnauthorizedError(
            "the credential was not signed by the key of this fog",
            hint="Issue credentials by the fog's own key: mistbow identity issue",
        )
    try:
        return _PAYLOAD.decode(payload)
    except (msgspec.MsgspecError, UnicodeDecodeError):
        raise UnauthorizedError(
            "the credential is of another version", hint="Issue it again: mistbow identity issue"
        ) from None


def _is_signed_by(key: str, payload: bytes, signature: bytes) -> bool:
    try:
        public = Ed25519PublicKey.from_public_bytes(bytes.fromhex(key))
        public.verify(signature, _CONTEXT + payload)
    except InvalidSignature:
        return False
    return True


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    return base64.b64decode(text + "=" * (-len(text) % 4), altchars=b"-_", validate=True)
