"""Answers with prompt logprobs, played by a server."""

from __future__ import annotations

import json
from typing import Any

from tests.support.player import Player, whole

KEY = "acs-bm-0123abcd-of-the-scoring-tests"


def entry(text: str, value: float, rank: int = 1, token: int = 5) -> dict[str, Any]:
    return {str(token): {"logprob": value, "rank": rank, "decoded_token": text}}


def answer(*lists: Any) -> bytes:
    choices = [
        {"index": i, "text": "x", "finish_reason": "length", "logprobs": None, "prompt_logprobs": one}
        for i, one in enumerate(lists)
    ]  # fmt: skip
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    return json.dumps({"id": "c", "model": "m", "choices": choices, "usage": usage}).encode()


def played(*bodies: bytes) -> Player:
    return Player(
        [whole(json.loads(body)) for body in bodies], {"/v1/models": whole({"object": "list", "data": []})}
    )
