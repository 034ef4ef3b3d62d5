"""What services show each other, and whom they trust: the token, and certificates."""

from pathlib import Path
from typing import Annotated

from pydantic import AfterValidator, Field, SecretStr, ValidationInfo, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from mistbow.tls import check_ca, check_certificate


def _is_of_authorities(file: Path | None) -> Path | None:
    if file is not None:
        check_ca(file)
    return file


ServedBy = Annotated[Path | None, AfterValidator(_is_of_authorities)]
"""A file of the authorities that servers are trusted by."""


class TrustSettings(BaseSettings):
    """Whom clients trust."""

    model_config = SettingsConfigDict(
        env_prefix="MISTBOW_", extra="ignore", frozen=True, hide_input_in_errors=True
    )

    tls_ca: ServedBy = Field(
        default=None,
        description="Certificates (PEM) of the authorities that servers are trusted by.",
    )


class TokenSettings(TrustSettings):
    """The bearer token of all services, itself or the file that it is in; and whom they trust."""

    token_file: Path | None = Field(
        default=None, description="File with the bearer token, in place of MISTBOW_TOKEN."
    )
    token: SecretStr | None = Field(
        default=None,
        validate_default=True,
        description="Bearer token; required when listening beyond loopback.",
    )

    @field_validator("token", mode="before")
    @classmethod
    def _found(cls, token: object, info: ValidationInfo) -> object:
        file: Path | None = info.data.get("token_file")
        if token == "":
            raise ValueError("is empty")
        if file is None:
            return token
        if token is not None:
            raise ValueError("MISTBOW_TOKEN and MISTBOW_TOKEN_FILE are both set; one is enough")
        try:
            text = file.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeError) as error:
            raise ValueError(f"MISTBOW_TOKEN_FILE cannot be read: {error}") from None
        if not text:
            raise ValueError(f"MISTBOW_TOKEN_FILE is empty: {file}")
        return text

    @property
    def secret(self) -> str | None:
        """The token as text, or None."""
        return None if self.token is None else self.token.get_secret_value()


class TlsSettings(TokenSettings):
    """The certificate that services show."""

    tls_cert: Path | None = Field(
        default=None, description="Certificate and its chain (PEM), to serve https by."
    )
    tls_key: Path | None = Field(
        default=None, validate_default=True, description="Key (PEM) of the certificate."
    )

    @field_validator("tls_key")
    @classmethod
    def _fitting(cls, key: Path | None, info: ValidationInfo) -> Path | None:
        if "tls_cert" not in info.data:
            return key
        certificate: Path | None = info.data["tls_cert"]
        if (certificate is None) != (key is None):
            raise ValueError("MISTBOW_TLS_CERT and MISTBOW_TLS_KEY go together; one is not set")
        if certificate is not None and key is not None:
            check_certificate(certificate, key)
        return key

    @property
    def scheme(self) -> str:
        """What the addresses of services begin with."""
        return "http" if self.tls_cert is None else "https"
