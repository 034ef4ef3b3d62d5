"""The settings of authentication and TLS between services: token, certificate, authorities."""

from pathlib import Path
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator

from mistbow.auth.credential import Credential, Kind
from mistbow.auth.identity import Identity, IdentityFile, Proof, identity_file, read_identity_file
from mistbow.certificates import CertificateWatch, certificate_watch
from mistbow.errors import MistbowError
from mistbow.setting_values import CheckedSettings
from mistbow.tls import TlsFiles, check_ca, check_certificate, check_readable


def _check_authorities(file: Path | None) -> Path | None:
    if file is not None:
        check_ca(file)
    return file


AuthoritiesFile = Annotated[Path | None, AfterValidator(_check_authorities)]
"""A file with the certificates of the authorities that sign servers' certificates."""


def _check_token(token: object) -> object:
    text = token.get_secret_value() if isinstance(token, SecretStr) else str(token)
    if not (text.isascii() and text.isprintable()) or any(map(str.isspace, text)):
        raise ValueError(
            "the token must consist of ASCII letters, digits and signs, without spaces and line "
            "breaks, as HTTP headers require"
        )
    return token


def read_token(file: Path) -> str:
    """Return the token in a file; raises ``ValueError`` if the file contains none."""
    try:
        text = file.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeError) as error:
        raise ValueError(f"the file cannot be read: {error}") from None
    if not text:
        raise ValueError("the file is empty; write the token into it")
    _check_token(text)
    return text


class TrustSettings(CheckedSettings):
    """The certificate authorities that clients trust."""

    tls_ca: AuthoritiesFile = Field(
        default=None,
        description="Certificates (PEM) of the authorities that clients trust.",
    )

    @property
    def client_tls(self) -> TlsFiles | None:
        """The files for connections to other services; None: the system's authorities."""
        return None if self.tls_ca is None else TlsFiles(self.tls_ca)


class TokenSettings(TrustSettings):
    """The bearer token of all services, as text or as the path of a file; or an identity."""

    service_kind: ClassVar[Kind | None] = None
    """The kind that an identity must have."""

    token_file: Path | None = Field(
        default=None, description="File with the bearer token, instead of MISTBOW_TOKEN."
    )
    token: SecretStr | None = Field(
        default=None,
        validate_default=True,
        description="Bearer token; required when listening beyond loopback.",
    )

    @field_validator("token_file")
    @classmethod
    def _check_token_file(cls, file: Path | None) -> Path | None:
        if file is not None:
            read_token(file)
        return file

    @field_validator("token", mode="before")
    @classmethod
    def _find_token(cls, token: object, info: ValidationInfo) -> object:
        file: Path | None = info.data.get("token_file")
        if file is None:
            return token if token is None else _check_token(token)
        if token is not None:
            raise ValueError("MISTBOW_TOKEN and MISTBOW_TOKEN_FILE are both set; set one of them")
        return read_token(file)

    identity_file: Path | None = Field(
        default=None, description="File with the identity of this service, instead of a token."
    )

    @field_validator("identity_file")
    @classmethod
    def _check_identity_file(cls, file: Path | None) -> Path | None:
        if file is not None:
            check_identity(file, cls.service_kind)
        return file

    identities_required: bool = Field(
        default=False,
        validate_default=True,
        description="Whether services without an identity are refused, even if a token is set.",
    )

    @field_validator("identities_required")
    @classmethod
    def _check_required(cls, required: bool, info: ValidationInfo) -> bool:
        if required and info.data.get("identity_file", "") is None:
            raise ValueError("MISTBOW_IDENTITIES_REQUIRED also needs MISTBOW_IDENTITY_FILE")
        return required

    @property
    def identity(self) -> IdentityFile | None:
        """The identity of this service; None: it has none."""
        file = self.identity_file
        return None if file is None else identity_file(file, self.shared_token or "")

    @property
    def shared_token(self) -> str | None:
        """The token for services without an identity; None: such services are refused."""
        return None if self.identities_required else self.secret

    @property
    def proof(self) -> Proof:
        """The proof of this service to other services; None: the fog has no token."""
        return self.identity or self.secret

    @property
    def secret(self) -> str | None:
        """The token as text; None: no token is set."""
        return None if self.token is None else self.token.get_secret_value()


def check_identity(file: Path, kind: Kind | None) -> None:
    """Raise ``ValueError`` unless a file contains a valid identity of a kind; None: of any kind."""
    try:
        found = Identity(read_identity_file(file)).credential
    except MistbowError as error:
        raise ValueError(error.text) from None
    if kind not in (None, found.kind):
        raise ValueError(
            f"it is the identity of the {found.kind} {found.name}; issue one of the kind {kind}"
        )


def check_identity_site(info: ValidationInfo, site: str) -> None:
    """Raise ``ValueError`` if the identity of a service is of another site.

    ``info``: of the validation of a setting that follows ``identity_file``.
    """
    found = read_credential(info)
    if found is not None and found.site != site:
        file = info.data["identity_file"]
        raise ValueError(
            f"the site is {site}, but the identity in {file} is of {found.site}; set MISTBOW_SITE "
            f"to {found.site}"
        )


def read_credential(info: ValidationInfo) -> Credential | None:
    """Return the credential of a service's identity; None: the service has no identity.

    ``info``: of the validation of a setting that follows ``identity_file``.
    """
    file: Path | None = info.data.get("identity_file")
    return None if file is None else Identity(read_identity_file(file)).credential


class TlsSettings(TokenSettings):
    """The certificate with which a service serves HTTPS."""

    tls_cert: Path | None = Field(
        default=None, description="Certificate and its chain (PEM), to serve HTTPS."
    )
    tls_key: Path | None = Field(
        default=None, validate_default=True, description="Private key (PEM) of the certificate."
    )

    @field_validator("tls_cert")
    @classmethod
    def _check_certificate(cls, certificate: Path | None) -> Path | None:
        if certificate is not None:
            check_readable(certificate)
        return certificate

    @field_validator("tls_key")
    @classmethod
    def _check_pair(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        if "tls_cert" not in info.data:
            return key
        certificate: Path | None = info.data["tls_cert"]
        if (certificate is None) != (key is None):
            raise ValueError("MISTBOW_TLS_CERT and MISTBOW_TLS_KEY go together; set both or none")
        if certificate is not None and key is not None:
            check_certificate(certificate, key)
        return key

    tls_client_ca: AuthoritiesFile = Field(
        default=None,
        validate_default=True,
        description="Certificates (PEM) of the authorities that sign the services' certificates; "
        "requests of services without one are refused.",
    )

    @field_validator("tls_client_ca")
    @classmethod
    def _check_client_ca(cls, ca: Path | None, info: ValidationInfo) -> Path | None:
        if ca is not None and info.data.get("tls_cert", "") is None:
            raise ValueError(
                "MISTBOW_TLS_CLIENT_CA also needs MISTBOW_TLS_CERT and MISTBOW_TLS_KEY"
            )
        return ca

    @property
    def client_tls(self) -> TlsFiles | None:
        """The files for connections to other services, to which it shows its certificate too."""
        files = TlsFiles(self.tls_ca, self.tls_cert, self.tls_key)
        return files if files.all else None

    @property
    def server_tls(self) -> TlsFiles | None:
        """The files with which the service serves HTTPS; None: it serves HTTP."""
        if self.tls_cert is None:
            return None
        return TlsFiles(self.tls_client_ca, self.tls_cert, self.tls_key)

    @property
    def certificates(self) -> CertificateWatch:
        """The expiry of the certificate of the service, and of the authorities that it trusts."""
        trusted = {each for each in (self.tls_ca, self.tls_client_ca) if each is not None}
        return certificate_watch(self.tls_cert, self.tls_key, tuple(sorted(trusted)))

    @property
    def scheme(self) -> str:
        """The scheme of the service's address: ``http`` or ``https``."""
        return "http" if self.tls_cert is None else "https"
