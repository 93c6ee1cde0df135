"""The embedded engine through HTTP: every parameter does what the reference says."""

from __future__ import annotations

import json
import math
import time
from typing import TYPE_CHECKING, Any

import httpx
import pytest

from tests.support.servers import serving
from tests.support.sse import chunks, text_of

if TYPE_CHECKING:
    from tests.support.servers import Running

FRANCE = "The capital of France is"
EMOJI = "Emoji: 🦊🌙✨🎉 🦊🌙✨🎉 🦊🌙✨"


def post(client: httpx.Client, prompt: Any = FRANCE, max_tokens: int = 8, **fields: Any) -> dict[str, Any]:
    answer = client.post("completions", json={"prompt": prompt, "max_tokens": max_tokens, **fields})
    assert answer.status_code == 200, answer.text
    body: dict[str, Any] = answer.json()
    return body


def texts(body: dict[str, Any]) -> list[str]:
    return [choice["text"] for choice in body["choices"]]


def test_greedy_continuation_and_its_probabilities(smollm: httpx.Client) -> None:
    choice = post(smollm, temperature=0, logprobs=5)["choices"][0]
    first = list(choice["logprobs"]["top_logprobs"][0].items())
    assert choice["text"].startswith(" Paris")
    assert first[0] == (" Paris", pytest.approx(-0.26, abs=0.05))
    assert first[1][0] == " the"
    assert "".join(choice["logprobs"]["tokens"]) == choice["text"]


def test_greedy_ignores_the_seed(smollm: httpx.Client) -> None:
    assert len({texts(post(smollm, temperature=0, seed=seed))[0] for seed in (0, 1, 2**63 - 1)}) == 1


def test_seeds(smollm: httpx.Client) -> None:
    seeds = (0, 1, 2**32, 2**32 + 1, 2**63 - 1)
    once = [texts(post(smollm, max_tokens=16, seed=seed))[0] for seed in seeds]
    again = [texts(post(smollm, max_tokens=16, seed=seed))[0] for seed in seeds]
    assert once == again
    assert len(set(once)) == len(seeds)


def test_without_a_seed_texts_differ(smollm: httpx.Client) -> None:
    assert len({texts(post(smollm, max_tokens=16))[0] for _ in range(4)}) > 1


def test_choices_differ_and_repeat(smollm: httpx.Client) -> None:
    body = post(smollm, "Roses are red,", 12, n=8, seed=3)
    assert len(set(texts(body))) == 8
    assert texts(post(smollm, "Roses are red,", 12, n=8, seed=3)) == texts(body)
    assert [choice["index"] for choice in body["choices"]] == list(range(8))
    assert body["usage"] == body["usage"] | {"prompt_tokens": 5, "completion_tokens": 96, "total_tokens": 101}


def test_more_choices_than_slots(smollm: httpx.Client) -> None:
    body = post(smollm, "Roses are red,", 4, n=16, seed=3)
    assert len(set(texts(body))) > 12


def test_a_batch_samples_like_its_members(smollm: httpx.Client) -> None:
    prompts = ["Roses are red,", "def fib(n):\n"]
    batch = post(smollm, prompts, 8, seed=5)
    alone = [texts(post(smollm, prompt, 8, seed=5))[0] for prompt in prompts]
    assert texts(batch) == alone
    mixed = post(smollm, prompts, 8, seed=5, n=2)
    assert texts(mixed)[2:] == texts(post(smollm, prompts[1], 8, seed=5, n=2))


def test_token_ids_go_verbatim(smollm: httpx.Client) -> None:
    ids = [504, 3575, 282, 4649, 314]
    body = post(smollm, ids, temperature=0)
    assert body["usage"]["prompt_tokens"] == 5
    assert texts(body) == texts(post(smollm, FRANCE, temperature=0))
    assert post(smollm, [ids, ids[:2]], 2)["usage"]["prompt_tokens"] == 7
    assert post(smollm, ids, 1, echo=True)["choices"][0]["text"].startswith(FRANCE)


@pytest.mark.parametrize("ids", [[-1], [49_152], [[504], [2**70]]])
def test_ids_outside_the_vocabulary(smollm: httpx.Client, ids: Any) -> None:
    answer = smollm.post("completions", json={"prompt": ids, "max_tokens": 1})
    assert answer.status_code == 400
    assert answer.json()["error"]["code"] in ("vllm_invalid_request", "invalid_request")


def test_empty_prompt(smollm: httpx.Client) -> None:
    assert post(smollm, "", 3)["usage"]["prompt_tokens"] == 1
    refused = smollm.post("completions", json={"prompt": "", "max_tokens": 3, "add_special_tokens": False})
    assert refused.json()["error"]["code"] == "vllm_invalid_request"


def test_top_k_one_is_greedy_at_any_temperature(smollm: httpx.Client) -> None:
    greedy = texts(post(smollm, temperature=0))
    assert texts(post(smollm, temperature=100, top_k=1)) == greedy
    assert texts(post(smollm, temperature=2, top_p=1e-9)) == greedy
    assert texts(post(smollm, temperature=2, min_p=1.0)) == greedy


def test_high_temperature_leaves_the_top(smollm: httpx.Client) -> None:
    choice = post(smollm, temperature=100, seed=1, logprobs=1, max_tokens=20)["choices"][0]
    own = choice["logprobs"]["token_logprobs"]
    best = [max(row.values()) for row in choice["logprobs"]["top_logprobs"]]
    assert sum(a < b for a, b in zip(own, best, strict=True)) > 15
    assert min(own) < -8
    bounded = post(smollm, temperature=100, top_k=2, seed=1, logprobs=2, max_tokens=20)["choices"][0][
        "logprobs"
    ]
    assert all(len(row) <= 2 for row in bounded["top_logprobs"])


@pytest.mark.parametrize("name", ["presence_penalty", "frequency_penalty", "repetition_penalty"])
def test_penalties_turn_repetition_away(smollm: httpx.Client, name: str) -> None:
    prompt = "a b c a b c a b c a b c a b c a b c a b c"
    plain = post(smollm, prompt, 20, temperature=0, logprobs=0)["choices"][0]["logprobs"]["tokens"]
    turned = post(smollm, prompt, 20, temperature=0, logprobs=0, **{name: 2.0})["choices"][0]["logprobs"][
        "tokens"
    ]
    assert len(set(turned)) > len(set(plain)) + 3
    same = post(smollm, prompt, 20, temperature=0, logprobs=0, **{name: 1.0 if name[0] == "r" else 0.0})
    assert same["choices"][0]["logprobs"]["tokens"] == plain


@pytest.mark.parametrize("count", [0, 1, 20, 100])
def test_number_of_alternatives(smollm: httpx.Client, count: int) -> None:
    choice = post(smollm, logprobs=count, seed=2, max_tokens=6)["choices"][0]["logprobs"]
    for token, own, row in zip(
        choice["tokens"], choice["token_logprobs"], choice["top_logprobs"], strict=True
    ):
        assert max(1, count * 0.8) <= len(row) <= count + 1
        assert next(iter(row)) == token
        assert row[token] <= own + 1e-9
        assert sum(map(math.exp, row.values())) <= 1.001


def test_no_logprobs_unless_asked(smollm: httpx.Client) -> None:
    assert post(smollm)["choices"][0]["logprobs"] is None


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("stop", "text", "reason"),
    [("\n", " 2 + 2 = 4", "\n"), (["4", "\n"], " 2 + 2 = ", "4"), ("= 4\n", " 2 + 2 ", "= 4\n")],
)
def test_stop(smollm: httpx.Client, stop: Any, text: str, reason: str, stream: bool) -> None:
    body = {
        "prompt": "Q: What is 2+2?\nA:",
        "max_tokens": 40,
        "temperature": 0,
        "stop": stop,
        "stream": stream,
    }
    answer = smollm.post("completions", json=body)
    if stream:
        assert text_of(answer.text) == text
        last = chunks(answer.text)[-1]["choices"][0]
    else:
        last = answer.json()["choices"][0]
        assert last["text"] == text
    assert (last["finish_reason"], last["stop_reason"]) == ("stop", reason)


def test_stop_that_never_comes_loses_nothing(smollm: httpx.Client) -> None:
    plain = texts(post(smollm, temperature=0, max_tokens=12))[0]
    body = {"prompt": FRANCE, "max_tokens": 12, "temperature": 0, "stop": plain + "never", "stream": True}
    assert text_of(smollm.post("completions", json=body).text) == plain


def test_end_of_text(smollm: httpx.Client) -> None:
    prompt = "<|im_start|>user\nSay hi.<|im_end|>\n<|im_start|>assistant\n"
    body = post(smollm, prompt, 200, temperature=0, logprobs=0)
    [choice] = body["choices"]
    assert choice["finish_reason"] == "stop"
    assert choice["stop_reason"] is None
    assert "<|" not in choice["text"]
    assert body["usage"]["completion_tokens"] == len(choice["logprobs"]["tokens"])
    assert choice["logprobs"]["tokens"][-1] == "<|im_end|>"


@pytest.mark.parametrize("limit", range(1, 10))
def test_characters_are_never_broken(smollm: httpx.Client, limit: int) -> None:
    body = {"prompt": EMOJI, "max_tokens": limit, "temperature": 0, "logprobs": 2}
    [choice] = smollm.post("completions", json=body).json()["choices"]
    streamed = smollm.post("completions", json=body | {"stream": True}).text
    assert "�" not in choice["text"]
    assert "🎉🦊🌙".startswith(choice["text"]) or choice["text"].startswith("🎉🦊")
    assert text_of(streamed) == choice["text"]
    assert len(choice["logprobs"]["tokens"]) == limit
    assert choice["finish_reason"] == "length"
    tokens = [t for c in chunks(streamed) for t in c["choices"][0]["logprobs"]["tokens"]]
    assert tokens == choice["logprobs"]["tokens"]
    assert tokens[:3] == ["", "", "🎉"][:limit]


def test_swallowed_tokens_have_their_probabilities(smollm: httpx.Client) -> None:
    [choice] = post(smollm, EMOJI, 3, temperature=0, logprobs=3)["choices"]
    ids = [10813, 232, 227]
    echoed = smollm.post("completions", json={"prompt": EMOJI, "max_tokens": 1, "echo": True, "stream": True})
    whole = chunks(echoed.text)[0]["choices"][0]["prompt_token_ids"] + ids
    scored = post(smollm, whole, 1, prompt_logprobs=0)["choices"][0]["prompt_logprobs"][-3:]
    for own, position in zip(choice["logprobs"]["token_logprobs"], scored, strict=True):
        assert own == pytest.approx(next(iter(position.values()))["logprob"], abs=0.1)


def test_echo(smollm: httpx.Client) -> None:
    body = post(smollm, "Once upon a time", 4, temperature=0, echo=True)
    assert texts(body)[0].startswith("Once upon a time,")
    assert body["usage"]["completion_tokens"] == 4
    assert body["choices"][0]["prompt_logprobs"] is None


def test_prompt_scores_of_a_longer_text(smollm: httpx.Client) -> None:
    prompt = "Zebras — 🦓 — don't\tmind\r\n  <|im_end|> 日本語 \x00 end."
    [choice] = post(smollm, prompt, 1, prompt_logprobs=3, echo=True, logprobs=1)["choices"]
    own = [next(iter(position.values())) for position in choice["prompt_logprobs"][1:]]
    assert "".join(choice["logprobs"]["tokens"][:-1]) == prompt
    assert [entry["decoded_token"] for entry in own] == choice["logprobs"]["tokens"][1:-1]
    for position in choice["prompt_logprobs"][1:]:
        ranks = [entry["rank"] for entry in position.values()]
        assert sorted(set(ranks) | {1, 2, 3}) == sorted(set(ranks))
        by_rank = sorted(position.values(), key=lambda entry: entry["rank"])
        values = [entry["logprob"] for entry in by_rank]
        assert values == sorted(values, reverse=True)


def test_prompts_that_begin_alike_are_scored_as_if_alone(smollm: httpx.Client) -> None:
    """The rows of a beginning that was read before are told again; those behind it are its own."""
    texts = (
        "Long ago, in a land of snow",
        "Long ago, in a land of 🦊 and",
        "Long ago, in a",
        "Long ago, in a sea",
    )
    after = [post(smollm, text, 1, prompt_logprobs=3)["choices"][0]["prompt_logprobs"] for text in texts]
    for text, told in zip(texts, after, strict=True):
        # The number of alternatives is another one: nothing that was read before serves for it.
        alone = post(smollm, text, 1, prompt_logprobs=4)["choices"][0]["prompt_logprobs"]
        assert len(alone) == len(told)
        for one, other in zip(told[1:], alone[1:], strict=True):
            assert next(iter(one)) == next(iter(other))
            for token, entry in one.items():
                assert entry["logprob"] == pytest.approx(other[token]["logprob"], abs=0.02)
                assert entry["decoded_token"] == other[token]["decoded_token"]
    assert after[0][1:6] == after[1][1:6]
    assert after[0][1:5] == after[2][1:5] == after[3][1:5]


def test_scores_equal_the_generated_probabilities(smollm: httpx.Client) -> None:
    [choice] = post(smollm, FRANCE, 6, temperature=0, logprobs=1)["choices"]
    scored = post(smollm, FRANCE + choice["text"], 1, prompt_logprobs=0)["choices"][0]["prompt_logprobs"][-6:]
    again = [next(iter(position.values()))["logprob"] for position in scored]
    assert again == pytest.approx(choice["logprobs"]["token_logprobs"], abs=0.05)


def test_full_vocabulary(smollm: httpx.Client) -> None:
    [choice] = post(smollm, "The capital", 1, prompt_logprobs=-1)["choices"]
    [first, second] = choice["prompt_logprobs"]
    assert first is None
    assert len(second) == 49_152
    assert sum(math.exp(entry["logprob"]) for entry in second.values()) == pytest.approx(1, abs=0.01)
    long = smollm.post("completions", json={"prompt": [504] * 33, "max_tokens": 1, "prompt_logprobs": -1})
    assert long.json()["error"]["code"] == "full_vocab_prompt_too_long"


def test_context_is_used_to_its_end() -> None:
    with serving("--context", "256") as server:
        client = httpx.Client(base_url=server.base + "/", headers=server.auth, timeout=60)
        limit = client.get("models").json()["data"][0]["capabilities"]["max_model_len"]
        ids = [504, 3575, 282, 4649, 314] * 47
        body = post(client, ids, limit - len(ids), temperature=0)
        assert limit == 256
        assert body["usage"]["total_tokens"] == limit
        assert body["choices"][0]["finish_reason"] == "length"
        refused = client.post("completions", json={"prompt": ids, "max_tokens": limit - len(ids) + 1})
        assert refused.json()["error"]["code"] == "context_length_exceeded"
        client.close()


def test_running_usage(smollm: httpx.Client) -> None:
    options = {"include_usage": True, "continuous_usage_stats": True}
    body = {"prompt": [FRANCE, "Hi"], "max_tokens": 5, "stream": True, "stream_options": options}
    seen: dict[int, list[int]] = {0: [], 1: []}
    *content, last = chunks(smollm.post("completions", json=body).text)
    for chunk in content:
        seen[chunk["choices"][0]["index"]].append(chunk["usage"]["completion_tokens"])
    assert seen == {0: [1, 2, 3, 4, 5], 1: [1, 2, 3, 4, 5]}
    assert last["choices"] == []
    assert last["usage"]["completion_tokens"] == 10


def busy(server: Running) -> int:
    count: int = httpx.get(f"{server.root}/health").json()["backends"][0]["active_choices"]
    return count


def wait_idle(server: Running) -> float:
    start = time.perf_counter()
    while busy(server):
        assert time.perf_counter() - start < 5
        time.sleep(0.002)
    return time.perf_counter() - start


@pytest.mark.parametrize("count", [1, 8])
def test_leaving_frees_the_engine_at_the_next_token(smollm_server: Running, count: int) -> None:
    counting = "1, 2, 3, 4, 5, 6, 7, 8,"  # which has no end
    body = {"prompt": counting, "max_tokens": 1000, "n": count, "stream": True, "temperature": 0.1}
    with httpx.Client(base_url=smollm_server.base + "/", headers=smollm_server.auth, timeout=30) as client:
        with client.stream("POST", "completions", json=body) as answer:
            lines = (line for line in answer.iter_lines() if line)
            next(lines)
            began = time.perf_counter()
            for _ in range(4 * count):
                next(lines)
            step = (time.perf_counter() - began) / 4  # of every choice a token
            assert busy(smollm_server) >= 1
        assert wait_idle(smollm_server) < 0.5 + 10 * step  # hundreds of steps were left


@pytest.mark.parametrize("fields", [{"n": 8}, {"prompt_logprobs": 0}])
def test_leaving_while_a_long_prompt_is_read(smollm_server: Running, fields: dict[str, Any]) -> None:
    body = {"prompt": list(range(1000, 2500)), "max_tokens": 400, **fields}
    with pytest.raises(httpx.ReadTimeout):
        httpx.post(f"{smollm_server.base}/completions", json=body, headers=smollm_server.auth, timeout=0.5)
    assert wait_idle(smollm_server) < 4  # one batch of the prompt, on a machine that does other things too


def test_concurrent_requests_are_apart(smollm_server: Running) -> None:
    from concurrent.futures import ThreadPoolExecutor

    def run(seed: int) -> str:
        body = {"prompt": f"Number {seed} is", "max_tokens": 12, "seed": seed}
        answer = httpx.post(
            f"{smollm_server.base}/completions", json=body, headers=smollm_server.auth, timeout=60
        )
        return json.dumps(answer.json()["choices"])

    alone = [run(seed) for seed in range(6)]
    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(run, range(6))) == alone
