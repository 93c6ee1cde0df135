"""The usual SDK talks to the server as it does to the service."""

from __future__ import annotations

from typing import TYPE_CHECKING

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
