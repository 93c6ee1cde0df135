"""A second reading of an answer that the typed reader refused: what is readable is kept.

Owns what becomes of odd values: a count written ``3.0``, a field of an unexpected type, half a character. It must not
know when it is asked: the typed reader comes first, since it is fast, and this one reads a single chunk or body.

A value that has no reading counts as not told. Half of a surrogate pair has no UTF-8 form; it becomes U+FFFD. Counts
of tokens are told whole or not at all, so that half a usage is never taken for a bill.
"""

from __future__ import annotations

import json
import math
from typing import Any

from . import wire
from .failures import info_of, told_error
from .wire import Answer, Choice, Job, Logprobs, PromptLogprob, Usage

LOWEST = -9999.0
"""vLLM writes this for a probability of zero; JSON has no form for minus infinity."""
_MOST = 2**53


def read_json(raw: bytes) -> Any:
    """Any JSON, with ``NaN`` and half characters too. Raises ``ValueError`` when it is none or nested too deep."""
    try:
        return _clean(json.loads(raw.decode("utf-8-sig", "replace")))
    except RecursionError:
        raise ValueError("nested too deep") from None


def read_answer(raw: bytes) -> Answer:
    """A body or one chunk. Raises ``ValueError`` when it is not a JSON object, or its choices cannot be told apart."""
    said = read_json(raw)
    if not isinstance(said, dict):
        raise ValueError("not a JSON object")  # one kind of error for whatever cannot be read
    choices = said.get("choices")
    return Answer(
        id=_text(said.get("id")) or "",
        object=_text(said.get("object")) or "",
        model=_text(said.get("model")) or "",
        choices=[_choice(each) for each in choices] if isinstance(choices, list) else None,
        usage=_usage(said.get("usage")),
        error=info_of(said["error"]) if said.get("error") is not None else told_error(said),
        request_id=_text(said.get("request_id")),
        system_fingerprint=_text(said.get("system_fingerprint")),
    )


def decode_answer(raw: bytes) -> Answer:
    """A body: the typed reading, else the second one; an error in another server's shape too. Raises ``ValueError``."""
    try:
        answer = wire.decode_answer(raw)
    except (ValueError, RecursionError):
        return read_answer(raw)
    return answer if answer.choices is not None or answer.error is not None else read_answer(raw)


def decode_job(raw: bytes, job_id: str | None = None) -> Job:
    """A job's metadata, odd characters replaced. Raises ``ValueError``."""
    try:
        return wire.decode_job(raw, job_id)
    except (ValueError, RecursionError):
        return wire.decode_job(json.dumps(read_json(raw)).encode(), job_id)


def _choice(said: Any) -> Choice:
    index = _count(said.get("index", 0)) if isinstance(said, dict) else None
    if index is None:
        raise ValueError("a choice without a number")
    reason, stop = said.get("finish_reason"), said.get("stop_reason")
    return Choice(
        index=index,
        text=_text(said.get("text")) or "",
        logprobs=_logprobs(said.get("logprobs")),
        finish_reason=reason if isinstance(reason, str) else None,
        stop_reason=stop if isinstance(stop, str | int) else None,
        prompt_logprobs=_positions(said.get("prompt_logprobs")),
    )


def _logprobs(said: Any) -> Logprobs | None:
    if not isinstance(said, dict) or not isinstance(said.get("tokens"), list):
        return None
    tops = said.get("top_logprobs")
    return Logprobs(
        tokens=tuple(_text(token) or "" for token in said["tokens"]),
        token_logprobs=tuple(_number(value) for value in _list(said.get("token_logprobs"))),
        top_logprobs=tuple(_top(entry) for entry in tops) if isinstance(tops, list) else None,
    )


def _top(said: Any) -> dict[str, float] | None:
    if not isinstance(said, dict):
        return None
    values = {text: _number(value) for text, value in said.items()}
    return {text: value for text, value in values.items() if value is not None}


def _positions(said: Any) -> list[dict[str, PromptLogprob] | None] | None:
    return [_position(entries) for entries in said] if isinstance(said, list) else None


def _position(said: Any) -> dict[str, PromptLogprob] | None:
    # The first entry is the prompt's own token: without it the position says nothing.
    if not isinstance(said, dict):
        return None
    entries: dict[str, PromptLogprob] = {}
    for key, value in said.items():
        logprob = _number(value.get("logprob")) if isinstance(value, dict) else None
        if logprob is None or not key.isdecimal():
            if not entries:
                return None
            continue
        entries[key] = PromptLogprob(logprob, _count(value.get("rank")), _text(value.get("decoded_token")))
    return entries or None


def _usage(said: Any) -> Usage | None:
    if not isinstance(said, dict):
        return None
    prompt, completion = _count(said.get("prompt_tokens")), _count(said.get("completion_tokens"))
    return None if prompt is None or completion is None else Usage(prompt, completion, prompt + completion)


def _count(value: Any) -> int | None:
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 16:
        value = int(value)
    good = isinstance(value, int) and not isinstance(value, bool) and -_MOST < value < _MOST
    return value if good else None


def _number(value: Any) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or math.isnan(value):
        return None
    return max(float(value), LOWEST) if abs(value) < _MOST or value < 0 else None


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _clean(value: Any) -> Any:
    """The value with texts that have a UTF-8 form. Raises ``RecursionError``."""
    if isinstance(value, str):
        return (
            value if value.isascii() else value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        )
    if isinstance(value, list):
        return [_clean(item) for item in value]
    if isinstance(value, dict):
        return {_clean(key): _clean(item) for key, item in value.items()}
    return value
