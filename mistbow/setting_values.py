"""The check of the values of settings: texts, hosts and ports, and the messages for bad values."""

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any, get_args

from annotated_types import MinLen
from pydantic import SecretStr, ValidationError, ValidationInfo, field_validator
from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, SettingsConfigDict

MAX_SETTING_CHARACTERS = 65_536
"""The maximum length of the value of a setting."""

MAX_NAME_CHARACTERS = 253
"""The maximum length of the name of a node, a region or a host."""

_SHOWN_CHARACTERS = 60
_LABEL = re.compile(r"[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?")
_CREDENTIALS = re.compile(r"//[^/@\s]*@")


class CheckedSettings(BaseSettings):
    """Settings whose values are checked as texts first: not blank, in one line, of finite size."""

    model_config = SettingsConfigDict(
        env_prefix="MISTBOW_",
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
        allow_inf_nan=False,
    )

    @field_validator("*", mode="before")
    @classmethod
    def _check_text(cls, value: object, info: ValidationInfo) -> object:
        if isinstance(value, str):
            field = cls.model_fields[info.field_name or ""]
            if value or not (field.default == "" or MinLen(0) in field.metadata):
                check_text(value)
        return value


def check_text(value: str) -> str:
    """Return a text; raises ``ValueError`` if it is blank, too long, or has a control character."""
    if not value.strip():
        raise ValueError("it is empty; unset it to use the default")
    if len(value) > MAX_SETTING_CHARACTERS:
        raise ValueError(f"it has more than {MAX_SETTING_CHARACTERS:,} characters")
    if not value.isprintable():
        raise ValueError("it has a line break or a character that cannot be printed; remove it")
    return value


def check_host(text: str) -> str:
    """Return an IP address or a host name; raises ``ValueError`` for other texts.

    >>> check_host("::1"), check_host("edge-1.example")
    ('::1', 'edge-1.example')
    """
    if not is_host(text):
        raise ValueError("it must be an IP address or a host name, without a scheme and a port")
    return text


def is_host(text: str) -> bool:
    """Return whether a text is an IP address or a host name.

    >>> is_host("localhost"), is_host("127.0.0.1:80"), is_host("300.0.0.1"), is_host("a b")
    (True, False, False, False)
    """
    try:
        ipaddress.ip_address(text)
    except ValueError:
        labels = text.removesuffix(".").split(".")
        is_name = len(text) <= MAX_NAME_CHARACTERS and all(map(_LABEL.fullmatch, labels))
        return is_name and not labels[-1].isdecimal()
    return True


def describe_problems(
    error: ValidationError, settings: type[BaseSettings], flags: Mapping[str, str]
) -> str:
    """Return one sentence for each invalid value: flag or variable, value, and the allowed values.

    ``flags``: the values that come from flags; the others come from variables. The values of
    secrets are omitted.
    """
    prefix = settings.model_config.get("env_prefix", "")
    text = "; ".join(_problems(error, settings, prefix, flags))
    for name in flags:
        # Checks of several settings name the variables.
        text = re.sub(rf"\b{prefix}{name.upper()}\b", _flag(name), text)
    return text


def _problems(
    error: ValidationError, settings: type[BaseSettings], prefix: str, flags: Mapping[str, str]
) -> Iterator[str]:
    for problem in error.errors(include_url=False):
        if problem["type"] == "default_factory_not_called":
            # A default that depends on an invalid setting, which is another problem.
            continue
        allowed = problem["msg"].removeprefix("Value error, ").replace("Input should", "it must")
        if not problem["loc"]:
            yield allowed
            continue
        name = str(problem["loc"][0])
        variable = f"{prefix}{name.upper()}"
        source = _flag(name) if name in flags else variable
        given = flags.get(name, os.environ.get(variable, problem["input"]))
        field = settings.model_fields.get(name)
        shown = "" if field is None or is_secret(field) else _shown(given)
        yield f"{source}{shown}: {allowed}"


def is_secret(field: FieldInfo) -> bool:
    """Return whether the value of a setting is a secret."""
    return field.annotation is SecretStr or SecretStr in get_args(field.annotation)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"


def _shown(value: Any) -> str:
    if value is None:
        return ""
    text = _CREDENTIALS.sub("//…@", str(value))
    if len(text) > _SHOWN_CHARACTERS:
        text = f"{text[:_SHOWN_CHARACTERS]}…"
    return f" is {text!r}"
