"""The binding of the options of an insight (WITH)."""

from collections.abc import Iterator
from typing import TypeVar

from analytics.plan.attributes import canonical
from analytics.plan.fragments import MAX_SALIENCE
from analytics.plan.functions import Parameters
from analytics.plan.sampling import Adaptive
from analytics_enabler.scheduling.model.constraints import Constraint, CostCap
from analytics_enabler.scheduling.model.jobs import Setting
from analytics_enabler.scheduling.registry import scheduler_names
from analytics_enabler.scheduling.scheduler_settings import SettingsSchema, settings_schema
from analytics_enabler.semantics.bind.bound_tree import BoundOptions, BoundSampling
from analytics_enabler.semantics.definition import Options
from analytics_enabler.semantics.diagnostics import Diagnostics, did_you_mean, nearest
from grammar import ast
from grammar.trees import walk
from mistbow.errors import InvalidRequestError
from mistbow.streams.signatures import SIGNATURE_FORM, is_signature

OptionT = TypeVar("OptionT", bound=ast.Option)

_ONCE: tuple[tuple[type[ast.Option], str, str], ...] = (
    (ast.SchedulerOption, "SCHEDULER", "Name one scheduler."),
    (ast.PlacementOn, "PLACEMENT_ON", "Write one: give the desired nodes a label of their own."),
    (ast.CostCapOption, "COST_CAP", "Write only the lower cost cap."),
    (ast.Allow, "ALLOW", "Join the conditions: `ALLOW WHEN (a AND b)`."),
    (ast.Signature, "SIGNATURE", "Write only one signature; a token may have several."),
    (ast.Salience, "SALIENCE", f"Write SALIENCE once, from 0 to {MAX_SALIENCE}."),
    (ast.Outliers, "ALGORITHM", "Name one algorithm."),
    (ast.SampleOption, "SAMPLE", "Write SAMPLE once."),
    (ast.Accuracy, "MAX_ERROR", "Write MAX_ERROR once."),
    (ast.Awareness, "AWARENESS", "Write AWARENESS once."),
    (ast.AdamOption, "ADAM", "Write ADAM once."),
)

_DEFAULTS = BoundOptions(Options(), scheduler=None, sampling=None, adaptive=None)

ALGORITHMS = ("pmcod",)
"""The algorithms of OUTLIER_DETECTION."""


def bind_options(insight: ast.InsightStatement, diagnostics: Diagnostics) -> BoundOptions:
    """Return the bound options of an insight; report errors in the options."""
    if not insight.options:
        return _DEFAULTS
    for kind, word, hint in _ONCE:
        for other in _all(insight, kind)[1:]:
            diagnostics.error(other.span, f"{word} is given twice", hint)
    cap = _first(insight, ast.CostCapOption)
    run = Options(
        settings=_settings(insight, diagnostics),
        confined=_constraint(insight),
        cap=None if cap is None else CostCap(amount=cap.amount, per_ms=cap.per.millis),
        signature=_signature(insight, diagnostics),
        salience=_salience(insight, diagnostics),
    )
    return BoundOptions(
        run,
        _scheduler(insight, diagnostics),
        _sampling(insight, diagnostics),
        _adaptive(insight),
    )


def bind_outliers(insight: ast.InsightStatement, diagnostics: Diagnostics) -> Parameters | None:
    """Return the parameters (K, R) of OUTLIER_DETECTION.

    Return None if the insight has no option ALGORITHM, and () if K or R is missing.
    """
    option = _first(insight, ast.Outliers)
    if option is None:
        return None
    calls = (node for node in walk(insight) if isinstance(node, ast.FunctionCall))
    if all(call.function != "OUTLIER_DETECTION" for call in calls):
        diagnostics.error(
            option.span,
            "ALGORITHM is an option of OUTLIER_DETECTION, which is not called here",
            "Remove it, or call the function: `OUTLIER_DETECTION(cpu.util, 1 HOUR)`.",
        )
    if option.algorithm.lower() not in ALGORITHMS:
        near = nearest(option.algorithm, ALGORITHMS) or list(ALGORITHMS)
        diagnostics.error(
            option.span, f"there is no algorithm `{option.algorithm}`", f"Use `{near[0]}`."
        )
    if option.k is None or option.r is None:
        diagnostics.error(
            option.span,
            "ALGORITHM needs the number of neighbours K and the distance R",
            "Add `AND K=50 AND R=0.5`: an outlier has fewer than 50 other values within 0.5.",
        )
        return ()
    return (float(option.k), option.r)


def _scheduler(insight: ast.InsightStatement, diagnostics: Diagnostics) -> str | None:
    named = _first(insight, ast.SchedulerOption)
    if named is None:
        return None
    # Looked up at each check: schedulers may be installed while the enabler runs.
    installed = scheduler_names()
    if named.name not in installed:
        near = nearest(named.name, installed)
        diagnostics.error(
            named.span,
            f"there is no scheduler `{named.name}`",
            did_you_mean(near) if near else f"The schedulers are {', '.join(installed)}.",
        )
    return named.name


def _sampling(insight: ast.InsightStatement, diagnostics: Diagnostics) -> BoundSampling | None:
    """Return the sampling that the options request; None: the options request no sampling."""
    samples, bounds = _all(insight, ast.SampleOption), _all(insight, ast.Accuracy)
    aware = _all(insight, ast.Awareness)
    requests: list[ast.SampleOption | ast.Accuracy] = [*samples, *bounds]
    if not requests:
        for option in aware:
            diagnostics.error(
                option.span,
                "AWARENESS needs SAMPLE or MAX_ERROR",
                "Write, for example, `SAMPLE 0.2 AND AWARENESS ON ACCURACY`.",
            )
        return None
    if samples and bounds:
        diagnostics.error(
            bounds[0].span,
            "SAMPLE and MAX_ERROR cannot be combined: each determines the size of the sample",
            "Remove SAMPLE or MAX_ERROR.",
        )
    accurate = any(option.of == "ACCURACY" for option in aware)
    if accurate and samples and samples[0].size is not None:
        diagnostics.error(
            aware[0].span,
            "AWARENESS ON ACCURACY needs a share of the points, not a fixed number for each entity",
            "Write a share, as in `SAMPLE 0.2`, or remove AWARENESS.",
        )
    return BoundSampling(requests[0], accurate)


def _adaptive(insight: ast.InsightStatement) -> Adaptive | None:
    option = _first(insight, ast.AdamOption)
    return None if option is None else Adaptive(option.confidence or Adaptive().confidence)


def _all(insight: ast.InsightStatement, kind: type[OptionT]) -> list[OptionT]:
    return [option for option in insight.options if isinstance(option, kind)]


def _first(insight: ast.InsightStatement, kind: type[OptionT]) -> OptionT | None:
    return next(iter(_all(insight, kind)), None)


def _constraint(insight: ast.InsightStatement) -> Constraint | None:
    option = _first(insight, ast.PlacementOn)
    if option is None:
        return None
    return Constraint(
        # Only one of the names of this attribute is a label of nodes.
        label="node" if canonical(option.key) == "node" else option.key,
        value=_label(option.value),
        count=option.count,
        dedicated=option.dedicated,
    )


def _label(value: ast.Value) -> str:
    """Convert a value to the text with which labels of nodes are compared."""
    match value:
        case ast.Boolean(truth):
            return "true" if truth else "false"
        case ast.Number(number):
            return f"{number:.15g}"
        case ast.Text(text):
            return text


def _signature(insight: ast.InsightStatement, diagnostics: Diagnostics) -> str | None:
    option = _first(insight, ast.Signature)
    if option is None or is_signature(option.name):
        return None if option is None else option.name
    diagnostics.error(
        option.span,
        f"`{option.name}` is not a valid signature",
        f"{SIGNATURE_FORM[0].upper()}{SIGNATURE_FORM[1:]}, as in `SIGNATURE 'board'`.",
    )
    return None


def _salience(insight: ast.InsightStatement, diagnostics: Diagnostics) -> int:
    option = _first(insight, ast.Salience)
    if len(_all(insight, ast.Salience)) > 1:  # one error is enough
        return 0
    if option is None or option.level <= MAX_SALIENCE:
        return 0 if option is None else option.level
    diagnostics.error(
        option.span,
        f"a SALIENCE of {option.level:,} is too high",
        f"A salience is from 0 (the default) to {MAX_SALIENCE}.",
    )
    return 0


def _settings(
    insight: ast.InsightStatement, diagnostics: Diagnostics
) -> tuple[tuple[str, Setting], ...]:
    option = _first(insight, ast.SchedulerOption)
    if option is None or not option.settings or option.name not in scheduler_names():
        return ()
    try:
        schema = settings_schema(option.name)
    except InvalidRequestError as error:
        diagnostics.error(
            option.span,
            error.message,
            "Remove the settings of this scheduler, or repair the scheduler.",
        )
        return ()
    settings = dict(_valid_settings(option, schema, diagnostics))
    return tuple(sorted(settings.items()))


def _valid_settings(
    option: ast.SchedulerOption, schema: SettingsSchema, diagnostics: Diagnostics
) -> Iterator[tuple[str, Setting]]:
    seen: set[str] = set()
    for setting in option.settings:
        value = _value(setting)
        if setting.key in seen:
            diagnostics.error(setting.span, f"`{setting.key}` is given twice", "Write it once.")
        elif setting.key not in schema.schemas:
            near = nearest(setting.key, schema.schemas)
            takes = ", ".join(schema.schemas)
            diagnostics.error(
                setting.span,
                f"the scheduler `{option.name}` has no setting `{setting.key}`",
                did_you_mean(near) if near else f"Its settings are: {takes or 'none'}.",
            )
        elif problem := schema.violation(setting.key, value):
            diagnostics.error(
                setting.span,
                f"the setting `{setting.key}` of `{option.name}`: {problem}",
                schema.describe(setting.key),
            )
        else:
            yield setting.key, value
        seen.add(setting.key)


def _value(setting: ast.Setting) -> Setting:
    values = tuple(each.value for each in setting.values)
    return values[0] if len(values) == 1 else values
