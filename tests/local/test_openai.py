"""The usual SDK talks to the server as it does to the service."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import httpx
import openai
import pytest

if TYPE_CHECKING:
    from tests.support.servers import Running


@pytest.fixture
def sdk(scripted_server: Running) -> openai.OpenAI:
    return openai.OpenAI(base_url=scripted_server.base, api_key=scripted_server.key, max_retries=0)


def test_completion_and_stream(sdk: openai.OpenAI) -> None:
    whole = sdk.completions.create(
        model="scripted", prompt="Hello", max_tokens=6, seed=4, logprobs=2, extra_body={"top_k": 5}
    )
    parts = list(
        sdk.completions.create(
            model="scripted",
            prompt="Hello",
            max_tokens=6,
            seed=4,
            stream=True,
            stream_options={"include_usage": True},
        )
    )
    assert "".join(part.choices[0].text for part in parts if part.choices) == whole.choices[0].text
    assert parts[-1].usage == whole.usage
    assert whole.choices[0].logprobs is not None
    assert [model.id for model in sdk.models.list()] == ["scripted"]


def test_errors_carry_their_code(sdk: openai.OpenAI) -> None:
    with pytest.raises(openai.BadRequestError) as chat:
        sdk.chat.completions.create(model="scripted", messages=[{"role": "user", "content": "Hi"}])
    assert chat.value.code == "chat_completions_unsupported"
    with pytest.raises(openai.RateLimitError) as limited:
        sdk.completions.create(model="scripted", prompt="#scripted fault=budget_exceeded", max_tokens=1)
    assert limited.value.code == "budget_exceeded"


def test_every_parameter(sdk: openai.OpenAI) -> None:
    """The SDK's own and, in ``extra_body``, those it does not know: all reach the server and are obeyed."""
    whole = sdk.completions.create(
        model="scripted",
        prompt=["One two", "Three"],
        echo=True,
        frequency_penalty=0.5,
        logprobs=3,
        max_tokens=4,
        n=2,
        presence_penalty=-0.5,
        seed=7,
        stop=["never said"],
        stream=False,
        temperature=0.8,
        top_p=0.9,
        user="someone",
        extra_body={
            "top_k": 20, "min_p": 0.01, "repetition_penalty": 1.1, "add_special_tokens": False,
            "prompt_logprobs": 2,
        },
    )  # fmt: skip
    assert [choice.index for choice in whole.choices] == [0, 1, 2, 3]
    assert whole.choices[0].text.startswith("One two")
    assert whole.choices[2].text.startswith("Three")
    extra: Any = whole.choices[0]
    assert extra.prompt_logprobs[0] is None
    assert len(extra.prompt_logprobs[1]) >= 2
    with pytest.raises(openai.BadRequestError) as refused:
        sdk.completions.create(model="scripted", prompt="x", max_tokens=1, extra_body={"topk": 3})
    assert "topk" in refused.value.message
    for unserved in ({"suffix": "y"}, {"best_of": 2}, {"logit_bias": {"5": 1}}):
        with pytest.raises(openai.BadRequestError) as strict:
            sdk.completions.create(model="scripted", prompt="x", max_tokens=1, **unserved)  # type: ignore[call-overload]
        assert strict.value.code == "invalid_request"


@pytest.mark.parametrize(
    ("script", "retried"),
    [
        ("fault=upstream_deadline", False),
        ("fault=deadline_infeasible", False),
        ("fault=queue_full", True),
        ("fault=circuit_open", True),
    ],
)
def test_the_sdk_obeys_the_retry_headers(scripted_server: Running, script: str, retried: bool) -> None:
    """What the headers ask for is what the SDK does: X-Should-Retry is obeyed, Retry-After is waited."""
    sent: list[float] = []
    answers: list[httpx.Response] = []
    hooks: Any = {"request": [lambda _: sent.append(time.monotonic())], "response": [answers.append]}
    with httpx.Client(event_hooks=hooks) as http:
        sdk = openai.OpenAI(
            base_url=scripted_server.base, api_key=scripted_server.key, max_retries=1, http_client=http
        )
        with pytest.raises(openai.APIStatusError) as failed:
            sdk.completions.create(model="scripted", prompt=f"#scripted {script} retry_after=1", max_tokens=1)
    assert failed.value.request_id == answers[-1].headers["x-request-id"]
    assert len(sent) == 1 + retried
    assert (answers[0].headers.get("x-should-retry") == "false") is not retried
    if retried:
        assert answers[0].headers["retry-after"] == "1"
        assert sent[1] - sent[0] >= 1
