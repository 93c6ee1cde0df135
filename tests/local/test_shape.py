"""The server's answers, key by key and in order, against responses recorded from vLLM."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.sse import chunks, text_of

if TYPE_CHECKING:
    import httpx

WIRE = Path(__file__).parents[1] / "data" / "wire"
NAMES = sorted(path.name.removesuffix(".request.json") for path in WIRE.glob("*.request.json"))
BODIES = [n for n in NAMES if (WIRE / f"{n}.response.json").exists() and not n.startswith(("error", "empty"))]
STREAMS = [n for n in NAMES if (WIRE / f"{n}.response.sse").exists()]
OPEN_KEYS = ("top_logprobs",)
"""Dicts whose keys are tokens, not fields."""


def ask(name: str) -> dict[str, Any]:
    body: dict[str, Any] = json.loads((WIRE / f"{name}.request.json").read_text("utf-8"))["body"]
    return {**body, "model": "smollm2-135m"}


def outline(value: Any, name: str = "") -> Any:
    """Field names and kinds of a value, without what a model is free to choose."""
    if isinstance(value, dict):
        if name == "position" or name in OPEN_KEYS:
            return {"any": outline(next(iter(value.values())))}
        return {key: outline(item, key) for key, item in value.items()}
    if isinstance(value, list):
        inner = {"prompt_logprobs": "position", "top_logprobs": "top_logprobs"}.get(name, "item")
        kinds = [outline(item, inner) for item in value]
        return [kind for i, kind in enumerate(kinds) if kind not in kinds[:i]]
    return type(value).__name__


def settled(value: Any) -> Any:
    # How a text ends is the model's choice; that the field is there is not.
    if isinstance(value, dict):
        free = {"stop_reason": "free", "finish_reason": "free"}
        return {k: free.get(k) or settled(v) for k, v in value.items()}
    return [settled(v) for v in value] if isinstance(value, list) else value


@pytest.mark.parametrize("name", BODIES)
def test_body(smollm: httpx.Client, name: str) -> None:
    recorded = json.loads((WIRE / f"{name}.response.json").read_text("utf-8"))
    ours = smollm.post("completions", json=ask(name)).json()
    assert list(ours) == list(recorded)
    assert [list(c) for c in ours["choices"]] == [list(c) for c in recorded["choices"]]
    assert list(ours["usage"]) == list(recorded["usage"])
    assert settled(outline(ours)) == settled(outline(recorded))
    assert ours["usage"]["prompt_tokens"] == recorded["usage"]["prompt_tokens"]
    assert ours["id"].startswith("cmpl-")
    assert len(ours["id"]) == len(recorded["id"])


@pytest.mark.parametrize("name", STREAMS)
def test_stream(smollm: httpx.Client, name: str) -> None:
    recorded = chunks((WIRE / f"{name}.response.sse").read_text("utf-8"))
    body = smollm.post("completions", json=ask(name)).text
    ours = chunks(body)
    assert kinds(ours) == kinds(with_running_usage(recorded, name))
    if ours[-1].get("usage"):
        assert ours[-1]["usage"]["prompt_tokens"] == recorded[-1]["usage"]["prompt_tokens"]
    assert [c["choices"] == [] for c in ours].count(True) == [c["choices"] == [] for c in recorded].count(
        True
    )
    assert "�" not in text_of(body)


def kinds(answer: list[dict[str, Any]]) -> set[str]:
    """The different outlines of a stream's chunks, key order included."""
    return {json.dumps(settled(outline(chunk))) for chunk in answer}


def with_running_usage(recorded: list[dict[str, Any]], name: str) -> list[dict[str, Any]]:
    # vLLM sends running usage only together with the final one; the service's reference has it alone too.
    if name != "stream_continuous_only":
        return recorded
    usage = {"prompt_tokens": 4, "total_tokens": 5, "completion_tokens": 1}
    merged = []
    for chunk in recorded:
        chunk.setdefault("usage", usage)
        tail = chunk.pop("system_fingerprint", None)
        merged.append(chunk | ({"system_fingerprint": tail} if tail else {}))
    return merged


def test_echo_stream_begins_with_the_prompt_and_its_ids(smollm: httpx.Client) -> None:
    recorded = chunks((WIRE / "stream_echo.response.sse").read_text("utf-8"))[0]["choices"][0]
    ours = chunks(smollm.post("completions", json=ask("stream_echo")).text)[0]["choices"][0]
    assert ours["prompt_token_ids"] == recorded["prompt_token_ids"]
    assert ours["text"].startswith("Once upon a time")
    assert ours["logprobs"]["tokens"][:4] == recorded["logprobs"]["tokens"][:4]
    assert ours["logprobs"]["text_offset"][:4] == recorded["logprobs"]["text_offset"][:4]
    assert ours["logprobs"]["token_logprobs"][0] is None
    assert ours["logprobs"]["token_logprobs"][1] == pytest.approx(
        recorded["logprobs"]["token_logprobs"][1], abs=0.6
    )


def test_first_greedy_token_agrees_with_vllm(smollm: httpx.Client) -> None:
    recorded = json.loads((WIRE / "logprobs_5.response.json").read_text("utf-8"))["choices"][0]
    ours = smollm.post("completions", json=ask("logprobs_5")).json()["choices"][0]
    assert ours["logprobs"]["tokens"][0] == recorded["logprobs"]["tokens"][0]  # then quantisation may differ
    for mine, theirs in zip(
        ours["logprobs"]["top_logprobs"][:1], recorded["logprobs"]["top_logprobs"][:1], strict=True
    ):
        assert next(iter(mine)) == next(iter(theirs))
        assert len(set(mine) & set(theirs)) >= 3


def test_prompt_scores_agree_with_vllm(smollm: httpx.Client) -> None:
    recorded = json.loads((WIRE / "prompt_logprobs_5.response.json").read_text("utf-8"))["choices"][0]
    ours = smollm.post("completions", json=ask("prompt_logprobs_5")).json()["choices"][0]
    assert len(ours["prompt_logprobs"]) == len(recorded["prompt_logprobs"])
    assert ours["prompt_logprobs"][0] is None
    for mine, theirs in zip(ours["prompt_logprobs"][1:], recorded["prompt_logprobs"][1:], strict=True):
        token = next(iter(theirs))
        assert next(iter(mine)) == token
        assert mine[token]["decoded_token"] == theirs[token]["decoded_token"]
        assert mine[token]["logprob"] == pytest.approx(theirs[token]["logprob"], abs=0.8)
        ranks = sorted(entry["rank"] for entry in mine.values())
        assert ranks[:5] == [1, 2, 3, 4, 5]


def test_words_of_incomplete_characters_agree_with_vllm(smollm: httpx.Client) -> None:
    recorded = json.loads((WIRE / "echo_logprobs_2.response.json").read_text("utf-8"))["choices"][0]
    ours = smollm.post("completions", json=ask("echo_logprobs_2")).json()["choices"][0]
    assert ours["logprobs"]["tokens"][:13] == recorded["logprobs"]["tokens"][:13]
    assert ours["logprobs"]["text_offset"][:13] == recorded["logprobs"]["text_offset"][:13]
    assert "".join(ours["logprobs"]["tokens"]) == ours["text"]
