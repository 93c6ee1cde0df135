"""The specification against the server that publishes it."""

from __future__ import annotations

import json
import re
from contextlib import closing
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from acs_jupyter.errors import CATALOGUE
from acs_jupyter.local.app import create_app
from acs_jupyter.local.job_store import JobStore
from acs_jupyter.local.openapi import document
from acs_jupyter.local.scripted import ScriptedEngine
from acs_jupyter.wire import REQUEST_FIELDS
from tests.conftest import UNHURRIED
from tests.support.job_server import outcome, submit, until
from tests.support.servers import Running, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

JOBS = "/v1/completion-jobs"
OPERATIONS = [(path, method) for path, methods in document()["paths"].items() for method in methods]
CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
    response_headers_conformance,
]


@pytest.fixture(scope="module")
def own_server() -> Iterator[Running]:
    """Jobs are counted by key: invented ones must not be in the way of other tests."""
    with serving("--scripted", *UNHURRIED) as running:
        yield running


@pytest.fixture(scope="module")
def published(own_server: Running) -> Any:
    return schemathesis.openapi.from_url(f"{own_server.root}/openapi.json")


def cases() -> Iterator[tuple[str, str, schemathesis.GenerationMode]]:
    """Every operation with what it allows, and those that take a body with what it does not."""
    for path, method in sorted(OPERATIONS):
        yield path, method, schemathesis.GenerationMode.POSITIVE
        if "requestBody" in document()["paths"][path][method]:
            yield path, method, schemathesis.GenerationMode.NEGATIVE


@pytest.mark.parametrize(("path", "method", "mode"), list(cases()))
def test_every_answer_conforms(
    own_server: Running, published: Any, path: str, method: str, mode: schemathesis.GenerationMode
) -> None:
    operation = published[path][method]
    statuses = []
    good = mode is schemathesis.GenerationMode.POSITIVE

    @settings(max_examples=60, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
    @given(case=operation.as_strategy(generation_mode=mode))
    def run(case: Any) -> None:
        if isinstance(case.body, dict):
            if isinstance(case.body.get("max_tokens"), int):
                case.body["max_tokens"] = min(
                    case.body["max_tokens"], 50
                )  # the engine's time, not its contract
            if good:
                case.body.pop("model", None)  # no invented name is served
            if good and path == JOBS:
                case.body = {"prompt": case.body["prompt"], "model": "scripted", "max_tokens": 1}
        answer = case.call_and_validate(headers=own_server.auth, checks=CHECKS, timeout=60)
        statuses.append(answer.status_code)

    run()
    assert statuses
    if path in (JOBS, "/v1/completions"):
        assert ((202 if path == JOBS else 200) if good else 400) in statuses


def test_jobs_that_exist_conform(own_server: Running, published: Any) -> None:
    with httpx.Client(base_url=own_server.base + "/", headers=own_server.auth, timeout=30) as client:
        jobs = [
            submit(client, "conform-good").json()["id"],
            submit(client, "conform-bad", "#scripted fault=vllm_oom").json()["id"],
            submit(client, "conform-left", "#scripted rate=1", max_tokens=40).json()["id"],
        ]
        statuses = []
        for at, method in (("", "get"), ("/result", "get"), ("/cancel", "post"), ("/result", "get")):
            for job in jobs:
                operation = published[f"{JOBS}/{{id}}{at}"][method]
                case = operation.Case(path_parameters={"id": job})
                told = CHECKS[1:]  # a stored outcome may be a 5xx, under the status it has
                answer = case.call_and_validate(headers=own_server.auth, checks=told, timeout=60)
                statuses.append(answer.status_code)
            if method == "get":
                for job in jobs[:2]:
                    outcome(client, job)
        until(client, jobs[2], "cancelled")
        outcomes = [outcome(client, job).status_code for job in jobs]
    assert outcomes == [200, 502, 409]
    assert {200, 202, 502} <= set(statuses)


def test_the_document_needs_no_key_and_is_public(scripted_server: Running) -> None:
    got = httpx.get(f"{scripted_server.root}/openapi.json")
    assert got.status_code == 200
    spec = got.json()
    assert spec["openapi"] == "3.1.0"
    assert all(path == "/health" or path.startswith("/v1/") for path in spec["paths"])


def test_every_route_is_in_it() -> None:
    with closing(JobStore(None, 0.0)) as jobs:
        app: Any = create_app(ScriptedEngine(), "some-key-here", hosts=None, jobs=jobs)
    while not hasattr(app, "routes"):
        app = app._app if hasattr(app, "_app") else app.app
    served = {
        (re.sub(r"\{.*?\}", "{id}", route.path), method.lower())
        for route in app.routes
        for method in route.methods - {"HEAD"}
    }
    told = {(path, method) for path, methods in document()["paths"].items() for method in methods}
    assert served - told == {("/openapi.json", "get"), ("/swagger", "get")}
    assert told <= served


def test_bounds_are_those_of_the_checks() -> None:
    fields = document()["components"]["schemas"]["CompletionRequest"]
    assert tuple(fields["properties"]) == REQUEST_FIELDS
    assert fields["additionalProperties"] is False
    assert fields["required"] == ["prompt"]
    shown = fields["properties"]
    assert shown["seed"]["anyOf"][0] == {"type": "integer", "minimum": 0, "maximum": 2**63 - 1}
    assert (shown["temperature"]["minimum"], shown["temperature"]["maximum"]) == (0, 100)
    assert (shown["top_p"]["exclusiveMinimum"], shown["top_p"]["maximum"]) == (0, 1)
    assert shown["stop"]["anyOf"][1]["maxItems"] == 4
    assert all(field["description"] for field in shown.values())


def test_errors_and_headers_are_told() -> None:
    spec = document()
    completions = spec["paths"]["/v1/completions"]["post"]
    responses = completions["responses"]
    assert set(responses) == {"200", "400", "401", "403", "413", "429", "500", "502", "503", "504"}
    assert completions["security"] == [{"key": []}]
    for status in ("429", "502", "503"):
        assert "Retry-After" in responses[status]["headers"]
    assert "Retry-After" not in responses["504"]["headers"]
    assert "X-Should-Retry" in responses["504"]["headers"]
    assert "X-Acs-Max-Tokens-Clamped" in responses["200"]["headers"]
    for methods in spec["paths"].values():
        for operation in methods.values():
            for status, response in operation["responses"].items():
                assert "X-Request-Id" in response["headers"]
                for code in re.findall(r"`(\w+)`: ", response["description"]):
                    assert code in CATALOGUE or code == "host_not_allowed"
                    assert code not in CATALOGUE or CATALOGUE[code].status == int(status)
    assert "#/components/schemas/Error" in json.dumps(responses["400"])


def test_the_page_loads_nothing_from_outside(scripted_server: Running) -> None:
    got = httpx.get(f"{scripted_server.root}/swagger")
    assert got.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in got.headers["content-security-policy"]
    assert not re.findall(r"(?:src|href)=[\"']?(?!openapi\.json)[^\"'\s>]+|https?://|@import|url\(", got.text)
    assert "innerHTML" not in got.text
