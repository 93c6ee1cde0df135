"""A request that every server takes, and how one checks an error's envelope."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx

CASES = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "contract_cases.jsonl").read_text("utf-8").splitlines()
]
ASK = {"prompt": "Hello", "max_tokens": 2}


def envelope(answer: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    body = answer.json()
    assert set(body) == {"error", "request_id"}
    assert body["request_id"] == answer.headers["x-request-id"]
    assert body["error"]["code"] == code
    assert body["error"]["message"]
    assert body["error"]["type"]
    return body["error"]


def renamed(body: Any, code: str) -> Any:
    # The cases name the service's models; here another one is served.
    if (
        isinstance(body, dict)
        and body.get("model") in ("llama-8b", "llama-405b")
        and code != "model_not_found"
    ):
        return body | {"model": "scripted"}
    return body
