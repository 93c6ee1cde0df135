"""One seed, one answer: by curl, by the usual SDK, by our client."""

from __future__ import annotations

import json
import subprocess
from typing import TYPE_CHECKING

import openai

from acs_jupyter import Client

if TYPE_CHECKING:
    from tests.support.servers import Running

ASKED = {
    "prompt": "The old lighthouse keeper",
    "max_tokens": 16,
    "seed": 7,
    "temperature": 0.9,
    "logprobs": 3,
}


def test_the_same_seed_gives_the_same_answer(smollm_server: Running) -> None:
    command = ["curl", "-sS", f"{smollm_server.base}/completions", "-H", "Content-Type: application/json"]
    command += ["-H", f"Authorization: Bearer {smollm_server.key}", "-d", json.dumps(ASKED)]
    by_curl = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["choices"][0]
    sdk = openai.OpenAI(base_url=smollm_server.base, api_key=smollm_server.key)
    by_sdk = sdk.completions.create(model="smollm2-135m", **ASKED).choices[0]  # type: ignore[call-overload]
    with Client(smollm_server.base, smollm_server.key) as client:
        by_client = client.complete(**ASKED)  # type: ignore[arg-type]
    assert by_curl["text"] == by_sdk.text == by_client.text
    assert by_curl["logprobs"]["token_logprobs"] == by_sdk.logprobs.token_logprobs
    assert by_curl["logprobs"]["token_logprobs"] == [token.logprob for token in by_client.tokens]
    assert by_curl["logprobs"]["tokens"] == [token.text for token in by_client.tokens]
