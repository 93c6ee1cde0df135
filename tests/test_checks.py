"""Both builders of requests refuse the same things, in words that name field, value and bound."""

import json
from pathlib import Path
from typing import Any

import pytest

from acs_jupyter import wire
from acs_jupyter.checks import beyond_model, build_request, parse_request
from acs_jupyter.errors import AcsError, BadRequest, InvalidRequest

DATA = Path(__file__).parent / "data"
CASES = [json.loads(line) for line in (DATA / "contract_cases.jsonl").read_text().splitlines()]
COMPLETIONS = [case for case in CASES if case["request"] == "POST /v1/completions"]
# A client's None means "not sent", so a null cannot be sent by it at all.
SENDABLE = [c for c in COMPLETIONS if isinstance(c.get("body"), dict) and None not in c["body"].values()]
# What the request alone cannot tell: the model, its lengths, the engine's own word.
BY_OTHERS = {
    "model_not_found",
    "context_length_exceeded",
    "full_vocab_prompt_too_long",
    "vllm_invalid_request",
}


def name(case: dict[str, Any]) -> str:
    return f"{case['case']}: {json.dumps(case.get('body', case.get('raw')))[:80]}"


@pytest.mark.parametrize("case", COMPLETIONS, ids=name)
def test_contract_cases_by_bytes(case: dict[str, Any]) -> None:
    body = case["raw"].encode() if "raw" in case else json.dumps(case["body"]).encode()
    expected = "" if case["code"] in BY_OTHERS else case["code"]
    try:
        parse_request(body)
        got = ""
    except AcsError as error:
        got = error.code
    assert got == expected, case


@pytest.mark.parametrize("case", SENDABLE, ids=name)
def test_the_client_refuses_the_same_before_it_sends(case: dict[str, Any]) -> None:
    try:
        build_request(case["body"])
        refused = False
    except InvalidRequest:
        refused = True
    # What the engine refuses in these cases depends on the request alone, so it is told before it is sent, too.
    assert refused == (case["code"] in ("invalid_request", "vllm_invalid_request")), case


def test_a_request_survives_its_own_encoding() -> None:
    fields = {
        "prompt": "a {b} % \\ \x00 \u202e 🦊\r\n", "model": "m", "max_tokens": 4, "n": 2, "stop": ["x", "\n"],
        "temperature": 1, "top_p": 0.9, "top_k": -1, "min_p": 0.0, "presence_penalty": -2, "frequency_penalty": 2,
        "repetition_penalty": 1.1, "seed": 2**63 - 1, "logprobs": 0, "prompt_logprobs": 0, "echo": False,
        "stream": True, "stream_options": {"include_usage": True}, "user": "u", "add_special_tokens": True,
    }  # fmt: skip
    request = build_request(fields)
    again = parse_request(wire.encode_request(request))
    assert again == request
    assert json.loads(wire.encode_request(request)) == fields
    assert set(fields) == set(wire.REQUEST_FIELDS)


def test_what_is_not_given_is_not_sent() -> None:
    assert json.loads(wire.encode_request(build_request({"prompt": "x", "seed": None, "n": None}))) == {
        "prompt": "x"
    }


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"n": 17}, ["n=17", "16"]),
        ({"n": True}, ["n=true", "a whole number is needed, not true or false"]),
        ({"max_tokens": "16"}, ["max_tokens='16'", "a whole number is needed, not a text"]),
        ({"temperature": 200}, ["temperature=200", "100"]),
        ({"top_p": 0.0}, ["top_p=0", "above 0 is needed"]),
        ({"temprature": 1}, ["temprature", "Did you mean 'temperature'"]),
        ({"best_of": 2}, ["best_of", "use n"]),
        ({"n": 2}, ["max_tokens must be set"]),
        ({"n": 16, "max_tokens": 2001}, ["32016", "32000"]),
        ({"stream_options": {"include_usage": True}}, ["stream_options needs stream=true"]),
        ({"stream": True, "prompt_logprobs": 5}, ["prompt_logprobs=5", "streamed"]),
        ({"stream": True, "stream_options": {"usage": True}}, ["usage", "stream_options"]),
        ({"seed": 2**63}, ["seed=9223372036854775808", "9223372036854775807"]),
        ({"prompt": "a\ud800b"}, ["lone surrogate", "U+D800", "character 1"]),
        ({"prompt": [1, "two"]}, ["mixes"]),
        ({"prompt": []}, ["empty"]),
        ({"prompt": [[]]}, ["empty"]),
        ({"temperature": float("nan")}, ["temperature=nan"]),
    ],
)
def test_words_name_field_value_and_bound(fields: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(InvalidRequest) as caught:
        build_request({"prompt": "Hi", **fields})
    for word in words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


def test_numbers_json_has_no_form_for() -> None:
    with pytest.raises(BadRequest, match="not a finite number") as caught:
        parse_request(b'{"prompt":"x","temperature":NaN}')
    assert caught.value.code == "invalid_request"


def test_a_models_own_limits() -> None:
    limits = wire.Capabilities(max_logprobs=20, max_model_len=100)
    assert "max_logprobs of 20" in (
        beyond_model(build_request({"prompt": "x", "logprobs": 21}), limits) or ""
    )
    request = build_request({"prompt": list(range(1, 52)), "max_tokens": 50})
    assert "max_model_len of 100" in (beyond_model(request, limits) or "")
    assert beyond_model(build_request({"prompt": [1] * 50, "max_tokens": 50, "logprobs": 20}), limits) is None


def test_clamp_header_is_read_loosely() -> None:
    clamp = wire.parse_clamp("requested=None,applied=15600,reason=deadline+budget,source=default,x=y")
    assert clamp == wire.Clamp(None, 15600, "deadline+budget", "default")
    assert wire.parse_clamp(None) is None
    assert wire.parse_clamp("nonsense") == wire.Clamp(None, None, "", "")
