"""``mistbow insights`` as far as it needs no enabler."""

from pathlib import Path
from typing import cast

import pytest
from fastapi import FastAPI
from fastapi.responses import JSONResponse, PlainTextResponse
from rich.console import Console
from typer.testing import CliRunner, Result

from command_line import insights
from command_line.insights import app
from tests.support.http_server import served

LAID = "-- how warm\na = COMPUTE TOP_K[3](t, 1 MINUTE) EVERY 1000 POINTS;  // often\n"


def command(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["format", *arguments])


def test_format_prints_or_writes(tmp_path: Path) -> None:
    file = tmp_path / "warm.insights"
    file.write_text("-- how warm\n a=compute top-k[3](t,60 s) every 1 K // often\n", "utf-8")
    assert command(str(file)).stdout == LAID
    assert command(str(file), "--write").stdout == ""
    assert file.read_text("utf-8") == LAID


def test_format_reports_syntax_errors(tmp_path: Path) -> None:
    file = tmp_path / "bad.insights"
    file.write_text("a = COMPUTE\n", "utf-8")
    refused = command(str(file), "--write")
    assert refused.exit_code == 1
    assert "expected a value" in refused.stderr
    assert file.read_text("utf-8") == "a = COMPUTE\n"
    assert command("a = b", "--write").exit_code == 2


@pytest.mark.parametrize("subcommand", ["check", "submit", "format"])
def test_file_that_is_no_utf_8_is_refused(subcommand: str, tmp_path: Path) -> None:
    file = tmp_path / "binary.insights"
    file.write_bytes(b"a = COMPUTE \xff")
    refused = CliRunner().invoke(app, [subcommand, str(file)])
    assert refused.exit_code == 2
    assert "UTF-8" in refused.stderr


@pytest.mark.parametrize(
    "options", [["--token", "a\nsecret"], ["--token", "é"], ["--url", "http://[::1"]]
)
def test_unusable_token_or_address_is_refused_and_not_printed(options: list[str]) -> None:
    refused = CliRunner().invoke(app, ["list", *options])
    assert refused.exit_code == 2
    assert "secret" not in refused.output


def test_foreign_text_is_printed_without_markup_and_control_characters() -> None:
    service = FastAPI()
    name = "[/red]\x1b[2J"
    deployment = {
        "deployment_id": "d-1", "name": name, "queries": "", "status": "running",
        "status_since": None, "error": None, "created_at": 0, "updated_at": 0, "insights": [],
        "warnings": [],
    }  # fmt: skip

    @service.get("/api/insights")
    def list_all() -> JSONResponse:
        return JSONResponse({"deployments": [deployment]})

    @service.get("/api/insights/{deployment_id:path}")
    def show(deployment_id: str) -> JSONResponse:
        error = {"code": "not_found", "message": f"there is no deployment {deployment_id}"}
        return JSONResponse({"error": error}, 404)

    with served(service) as url:
        listed = CliRunner().invoke(app, ["list", "--url", url])
        assert listed.exit_code == 0
        assert "[/red]" in listed.stdout
        assert "\x1b[2J" not in listed.stdout
        shown = CliRunner().invoke(app, ["show", "d-[/x]", "--url", url])
        assert shown.exit_code == 1
        assert "there is no deployment d-[/x]" in shown.stderr


@pytest.mark.parametrize("subcommand", ["show", "results", "delete"])
def test_empty_id_is_refused(subcommand: str) -> None:
    refused = CliRunner().invoke(app, [subcommand, ""])
    assert refused.exit_code == 2
    assert "the id is empty" in refused.stderr


@pytest.mark.parametrize("is_correct", [True, False])
def test_explain_exits_with_1_if_the_text_has_errors(is_correct: bool) -> None:
    service = FastAPI()

    @service.post("/api/insights/explain")
    def explain() -> PlainTextResponse:
        return PlainTextResponse("the plan")

    @service.post("/api/insights/check")
    def check() -> JSONResponse:
        return JSONResponse({"ok": is_correct, "problems": []})

    with served(service) as url:
        explained = CliRunner().invoke(app, ["explain", "a = b", "--url", url])
    assert "the plan" in explained.stdout
    assert explained.exit_code == (0 if is_correct else 1)


def deployment_of_a_fog() -> dict[str, object]:
    """Return a deployment whose names, times and texts are as long as those of a real fog."""
    lagging = {"state": "lagging", "since": 1_795_262_400_123}
    insight = {
        "name": "mean_delay_of_all_trams_by_line", "uid": "d-12345678/mean/1", "every_ms": 1000,
        "text": "mean_delay_of_all_trams_by_line = COMPUTE ARITHMETIC_MEAN(delay, 1 HOUR) BY line "
        "EVERY 10 SECONDS;", "since": 0, "first_tick": 0, "state": "running", "lifecycle": lagging,
        "lag_ms": 12_345, "missing_sites": [{"site": "tram-depot-north", "since": None, "why": ""}],
    }  # fmt: skip
    fragment = {
        "group": "all.fair.89d5ee48", "fragment": "all.fair.89d5ee48.tram-depot-north",
        "kind": "partial", "node": "worker-of-tram-depot-north", "site": "tram-depot-north",
        "since": 1_795_262_401_456, "state": "handing_over",
    }  # fmt: skip
    return {
        "deployment_id": "d-12345678", "name": "delays", "queries": "", "status": "running",
        "error": None, "lifecycle": lagging, "created_at": 0, "updated_at": 0, "warnings": [],
        "insights": [insight], "placement": [fragment],
    }  # fmt: skip


@pytest.mark.parametrize("width", [80, 100, 200])
def test_show_cuts_no_time_and_no_name(width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insights, "out", Console(width=width))
    service = FastAPI()

    @service.get("/api/insights/d-12345678")
    def show() -> JSONResponse:
        return JSONResponse(deployment_of_a_fog())

    with served(service) as url:
        shown = CliRunner().invoke(app, ["show", "d-12345678", "--url", url])
    assert shown.exit_code == 0, shown.output
    assert "\N{HORIZONTAL ELLIPSIS}" not in shown.stdout
    assert shown.stdout.count("since 2026-11-21T12:00:00.123+00:00") == 2
    assert "2026-11-21T12:00:01.456+00:00" in shown.stdout
    assert "COMPUTE ARITHMETIC_MEAN(delay, 1 HOUR) BY line EVERY 10 SECONDS;" in shown.stdout
    assert "handing_over" in shown.stdout


def test_show_prints_how_much_of_a_window_its_points_cover(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(insights, "out", Console(width=400))
    deployment, end = deployment_of_a_fog(), 1_795_262_400_000
    window = {"begins_at": end - 3_600_000, "points_from": end - 1_440_000, "ends_at": end}
    (insight,) = cast("list[dict[str, object]]", deployment["insights"])
    insight["window"] = {"metric": "delay\x1b[2J", **window}
    service = FastAPI()

    @service.get("/api/insights/d-12345678")
    def show() -> JSONResponse:
        return JSONResponse(deployment)

    with served(service) as url:
        shown = CliRunner().invoke(app, ["show", "d-12345678", "--url", url])
    assert "it began at 2026-11-21T11:00:00.000+00:00, the points of delay" in shown.stdout
    assert "at 2026-11-21T11:36:00.000+00:00; 1,440 of 3,600 s (40%) are covered" in shown.stdout
    assert "\x1b[2J" not in shown.stdout


def test_list_cuts_no_time_and_no_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insights, "out", Console(width=80))
    service = FastAPI()

    @service.get("/api/insights")
    def list_all() -> JSONResponse:
        return JSONResponse({"deployments": [deployment_of_a_fog()]})

    with served(service) as url:
        listed = CliRunner().invoke(app, ["list", "--url", url])
    assert "\N{HORIZONTAL ELLIPSIS}" not in listed.stdout
    assert "d-12345678" in listed.stdout
    assert "since 2026-11-21T12:00:00.123+00:00" in listed.stdout
