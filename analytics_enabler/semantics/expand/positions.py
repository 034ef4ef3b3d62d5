"""STREAM definitions with the provider ``position``: a latitude and a longitude of points."""

from collections.abc import Collection

from analytics_enabler.semantics.diagnostics import Diagnostics, did_you_mean, nearest
from grammar import ast

SETTINGS = ("metric", "latitude", "longitude")

_EXAMPLE = 'position(metric="speed", latitude="lat", longitude="lon")'


def bind_position(
    definition: ast.StreamDefinition, diagnostics: Diagnostics
) -> ast.Position | None:
    """Return the position that a STREAM definition with the provider ``position`` describes.

    If the definition has errors, report the errors and return None.
    """
    given: dict[str, str] = {}
    found = Diagnostics()
    for setting in definition.settings:
        if setting.key not in SETTINGS:
            near = nearest(setting.key, SETTINGS)
            hint = did_you_mean(near) if near else f"Settings: {', '.join(SETTINGS)}."
            found.error(setting.span, f"`position` has no setting `{setting.key}`", hint)
            continue
        match setting.values:
            case (ast.Text(name),):
                given[setting.key] = name
            case _:
                hint = f'Write `{setting.key}="…"`, in quotes.'
                found.error(setting.span, f"`{setting.key}` takes one name", hint)
                given[setting.key] = ""
    _report_missing(definition, given, found)
    diagnostics.extend(found.problems)
    if found.has_errors:
        return None
    metric, latitude, longitude = (given[name] for name in SETTINGS)
    return ast.Position(metric, latitude, longitude, span=definition.span)


def _report_missing(
    definition: ast.StreamDefinition, given: Collection[str], diagnostics: Diagnostics
) -> None:
    missing = [name for name in SETTINGS if name not in given]
    if missing:
        what = "setting" if len(missing) == 1 else "settings"
        are = "is" if len(missing) == 1 else "are"
        diagnostics.error(
            definition.span,
            f"the {what} {' and '.join(f'`{name}`' for name in missing)} {are} missing",
            f"Name a metric, and two attributes of its points, as in `{_EXAMPLE}`.",
        )
