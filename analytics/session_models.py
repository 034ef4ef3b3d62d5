"""The wire models of sessions: the rights of a caller, as pages show them."""

from pydantic import BaseModel, Field


class Session(BaseModel):
    """The rights of the caller's token, and the end of the caller's session."""

    token_required: bool = Field(description="Whether requests need a token or a session.")
    name: str = Field(description="The name of the token.")
    scopes: list[str] = Field(description="The scopes of the token; admin includes all others.")
    entity_prefix: str = Field(description="The entities of the token; empty: all entities.")
    signatures: list[str] | None = Field(
        description="The signatures of results that the token may read; null: all signatures."
    )
    expires_at: int | None = Field(
        description="The end of the session, in ms since the epoch; null: there is no session."
    )
    domain: str = Field(description="The domain of this enabler.")
    grafana_url: str | None = Field(
        None, description="The address of Grafana for links of pages; null: none is set."
    )
    version: str = Field(description="The version of this enabler.")
