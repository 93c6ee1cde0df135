"""Recorded and scripted vLLM servers, and the gateway in front of them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import httpx

from tests.support.gateway import MODELS
from tests.support.player import Player

if TYPE_CHECKING:
    from tests.support.player import Step

ASK = {"prompt": "Hello", "max_tokens": 2}
STREAM = ASK | {"stream": True}
METERED = STREAM | {"stream_options": {"include_usage": True}}
ANSWER = b'{"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":2,"total_tokens":5}}'


def playing(*answers: list[Step], **routes: list[Step]) -> Player:
    return Player(
        list(answers), {"/v1/models": MODELS} | {f"/{name}": steps for name, steps in routes.items()}
    )


def vllm(message: str, code: int) -> bytes:
    return json.dumps({"error": {"message": message, "type": "X", "param": None, "code": code}}).encode()


def envelope_with(got: httpx.Response, status: int, code: str) -> dict[str, Any]:
    assert got.status_code == status, got.text
    body = got.json()
    assert set(body) == {"error", "request_id"}
    assert body["error"]["code"] == code
    assert body["error"]["message"]
    error: dict[str, Any] = body["error"]
    return error
