"""Requests made and judged: from keyword arguments or from bytes, before anything is sent or run.

Owns the rules between fields and the words in which a broken rule is told: field, value, bound.
It must not know who asks. The client builds requests here, the local server parses them here,
so that both refuse the same things.
"""

from __future__ import annotations

import json
import math
import re
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

import msgspec
from msgspec import UNSET

from .errors import BadJson, BadRequest, InvalidRequest
from .plain import plain_fields
from .wire import (
    MAX_JOB_BODY,
    MAX_JOB_TOKENS,
    MAX_OUTPUT_WORK,
    REQUEST_FIELDS,
    Capabilities,
    CompletionRequest,
    StreamOptions,
    Unchecked,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

_LONGEST_NAME = 80
"""Characters of a field's name that are compared with those there are, and repeated."""
_SURROGATE = re.compile("[\ud800-\udfff]")
_decoder = msgspec.json.Decoder(CompletionRequest)


def build_request(fields: dict[str, Any]) -> CompletionRequest:
    """A checked request from keyword arguments; ``None`` means "not sent".

    Raises :class:`InvalidRequest` naming field, value and bound.
    """
    given = {name: value for name, value in fields.items() if value is not None and value is not UNSET}
    for name in given:
        if name not in REQUEST_FIELDS:
            raise InvalidRequest(unknown_field(name))
    if "prompt" not in given:
        raise InvalidRequest("prompt is missing: give a text, token ids, or a list of either.")
    if isinstance(given.get("stream_options"), StreamOptions):
        given["stream_options"] = msgspec.to_builtins(given["stream_options"])
    given = plain_fields(given)
    try:
        request = msgspec.convert(given, CompletionRequest)
    except msgspec.ValidationError as error:
        raise InvalidRequest(explain(str(error), given)) from None
    except OverflowError:
        raise InvalidRequest(_too_large(given)) from None
    problem = broken_rule(request) or _refused_by_engine(request)
    if problem:
        raise InvalidRequest(problem)
    return request


def _too_large(given: dict[str, Any]) -> str:
    large = [name for name, value in given.items() if isinstance(value, int) and abs(value) >= 2**64]
    return f"{', '.join(large) or 'prompt'}: a number is out of every range."


def _refused_by_engine(request: CompletionRequest) -> str | None:
    """What the schema allows and the engine behind it refuses: told before it is sent."""
    stops = [request.stop] if isinstance(request.stop, str) else request.stop
    if isinstance(stops, list) and "" in stops:
        return "stop='': an empty text cannot end anything; leave it out."
    if request.fan_out > 1 and request.temperature == 0:
        return f"n={request.n} with temperature=0: all samples would be the same; ask for one, or raise temperature."
    for prompt in request.prompts:
        if isinstance(prompt, list) and min(prompt) < 0:
            return f"prompt holds the token id {min(prompt)}: ids count from 0."
        if not prompt and request.add_special_tokens is False:
            return "prompt='' with add_special_tokens=False holds no token at all; drop one of the two."
    return None


def unchecked(fields: dict[str, Any]) -> Unchecked:
    """A request of whatever was given; only what has no JSON form is refused."""
    given = {name: value for name, value in fields.items() if value is not None and value is not UNSET}
    try:
        given = plain_fields(msgspec.to_builtins(plain_fields(given)))
        msgspec.json.encode(given)
    except (TypeError, ValueError, OverflowError) as error:
        raise InvalidRequest(f"A field has no form in JSON: {error}. Give plain texts and numbers.") from None
    known = {name: value for name, value in given.items() if name in REQUEST_FIELDS}
    return Unchecked(**{"prompt": "", **known}, given=given)


def parse_request(body: bytes) -> CompletionRequest:
    """A checked request from the bytes of a body.

    Raises :class:`BadJson` when the bytes are not JSON and :class:`BadRequest` for everything else.
    """
    try:
        request = _decoder.decode(body)
    except msgspec.ValidationError as error:
        # The decoder judges while it reads, so what is behind a wrong field may be no JSON at all: that comes first.
        raise BadRequest(explain(str(error), _loose(body))) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise _no_form(_loose(body)) from None
    problem = broken_rule(request)
    if problem:
        raise BadRequest(problem)
    return request


def broken_rule(request: CompletionRequest) -> str | None:
    """The first rule between fields that a well-typed request breaks, as a sentence, or ``None``."""
    return (
        _prompt_shape(request)
        or _top_k_zero(request)
        or _needs_max_tokens(request)
        or _output_work(request)
        or _stream_rules(request)
    )


def beyond_model(request: CompletionRequest, limits: Capabilities) -> str | None:
    """What a request asks beyond a model's own limits, as a sentence; ``None`` when it fits or is unknown."""
    for name in ("logprobs", "prompt_logprobs"):
        value = getattr(request, name)
        if isinstance(value, int) and limits.max_logprobs is not None and value > limits.max_logprobs:
            return f"{name}={value} is above this model's max_logprobs of {limits.max_logprobs}."
    if limits.max_model_len is not None and isinstance(request.max_tokens, int):
        ids = sum(len(prompt) for prompt in request.prompts if isinstance(prompt, list))
        if ids + request.max_tokens > limits.max_model_len:
            beside = f" with {ids} prompt tokens" if ids else ""
            return (
                f"max_tokens={request.max_tokens}{beside} is above this model's max_model_len "
                f"of {limits.max_model_len}."
            )
    return None


def beyond_job(request: CompletionRequest) -> str | None:
    """What a completion job cannot carry, as a sentence that names the alternative; ``None`` when it can."""
    return _job_needs(request) or _job_refuses(request) or _job_work(request)


def job_too_large(size: int) -> str | None:
    """The sentence for a job's request above its bytes, or ``None``."""
    if size <= MAX_JOB_BODY:
        return None
    return f"A job's request has at most {MAX_JOB_BODY} bytes; this has {size}. Use /v1/completions for it."


def unknown_field(name: str) -> str:
    """The sentence for a field the contract does not have, with the nearest one it has."""
    if name in _TOLD:
        return f"Unknown field '{name}'; {_TOLD[name]}."
    if len(name) > _LONGEST_NAME:
        return f"Unknown field '{name[:_LONGEST_NAME]}…' of {len(name)} characters."
    return f"Unknown field '{name}'.{_suggestion(name, REQUEST_FIELDS)}"


def _suggestion(name: str, known: tuple[str, ...]) -> str:
    name = name.replace("-", "_").lower()
    begun = [one for one in known if len(name) > 1 and one.startswith(name)]
    near = sorted(begun, key=len)[:1] or get_close_matches(name, known, n=1, cutoff=0.75)
    return f" Did you mean '{near[0]}'?" if near else ""


_TOLD = {
    "best_of": "use n for several samples",
    "messages": "base models have no chat: the text to continue is the prompt",
    "timeout": "it belongs to the client: Client(timeout=SECONDS)",
    "retries": "it belongs to the client: Client(retries=COUNT)",
    "max_retries": "it belongs to the client: Client(retries=COUNT)",
    "api_key": "it belongs to the client: Client(api_key=...)",
    "base_url": "it belongs to the client: Client(base_url=...)",
    "min_tokens": "the service has no lower bound; max_tokens is the upper one",
    "max_completion_tokens": "here it is max_tokens",
    "max_new_tokens": "here it is max_tokens",
    "skip_special_tokens": "the service has none; add_special_tokens is about the prompt",
    "length_penalty": "the service has no beam search, so no such penalty",
    "logit_bias": "the service has none",
    "suffix": "the service has none: a model continues the prompt's end",
    "extra_body": "give its fields themselves; with validate=False any field is sent",
    "num_return_sequences": "use n for several samples",
    "stop_sequences": "here it is stop",
}
"""Fields of others, and what there is instead."""


def explain(problem: str, given: Any) -> str:
    """Turn a decoder's complaint into a sentence with field, value and bound."""
    unknown = re.search(r"unknown field `([^`]*)`", problem)
    where = re.search(r" - at `\$\.?(.*)`$", problem)
    path = where.group(1) if where else ""
    if unknown:
        name = unknown.group(1)
        if not path:
            return unknown_field(name)
        known = StreamOptions.__struct_fields__ if path == "stream_options" else ()
        return f"Unknown field '{_short(name)}' in {_short(path)}.{_suggestion(_short(name), known)}"
    if "missing required field" in problem:
        return "prompt is missing: give a text, token ids, or a list of either."
    rule = _plainly(problem.split(" - at ", maxsplit=1)[0].replace("`", ""))
    if not path:
        return f"The body must be a JSON object: {rule}."
    return f"{path}={_shown(given, path)}: {rule}."


_KINDS = {
    "int": "a whole number", "float": "a number", "str": "a text", "bool": "true or false", "array": "a list",
    "object": "names with values", "null": "nothing",
}  # fmt: skip
_BOUNDS = {">=": "of at least", "<=": "of at most", ">": "above", "<": "below"}


def _plainly(rule: str) -> str:
    """``Expected int | null, got str``: a whole number is needed, not a text."""
    bound = re.fullmatch(r"Expected (int|float) (>=|<=|>|<) (\S+?)(\.0)?", rule)
    if bound:
        return f"{_KINDS[bound[1]]} {_BOUNDS[bound[2]]} {bound[3]} is needed"
    found = re.fullmatch(r"Expected ([a-z |]+?)(?:, got (\w+))?", rule)
    if found is None or not {*found[1].split(" | "), found[2] or "null"} <= _KINDS.keys():
        return f"{rule[0].lower()}{rule[1:]}"
    wanted = [_KINDS[kind] for kind in found[1].split(" | ") if kind != "null" or " " not in found[1]]
    got = f", not {_KINDS[found[2]]}" if found[2] else ""
    return f"{' or '.join(wanted)} is needed{got}"


def _prompt_shape(request: CompletionRequest) -> str | None:
    prompt = request.prompt
    if isinstance(prompt, str):
        return None
    if not prompt:
        return "prompt=[]: a list of prompts or token ids must not be empty."
    kinds = {type(item) for item in prompt}
    if len(kinds) > 1:
        return "prompt mixes texts, token ids or lists: use one kind."
    if kinds == {list} and not all(prompt):
        return "prompt holds an empty list of token ids."
    return None


def _top_k_zero(request: CompletionRequest) -> str | None:
    return "top_k=0: expected -1 (off) or at least 1." if request.top_k == 0 else None


def _needs_max_tokens(request: CompletionRequest) -> str | None:
    if isinstance(request.max_tokens, int) or request.choice_count == 1:
        return None
    return f"max_tokens must be set when there are several choices (prompts x n = {request.choice_count})."


def _output_work(request: CompletionRequest) -> str | None:
    if not isinstance(request.max_tokens, int):
        return None
    work = request.choice_count * request.max_tokens
    if work <= MAX_OUTPUT_WORK:
        return None
    return (
        f"prompts x n x max_tokens = {request.prompt_count} x {request.fan_out} x {request.max_tokens} "
        f"= {work} is above {MAX_OUTPUT_WORK}. {_lower(request, MAX_OUTPUT_WORK)}"
    )


def _lower(request: CompletionRequest, most: int) -> str:
    fits = most // request.choice_count
    if fits < 1:
        return "Send fewer prompts at once."
    several = " or send fewer prompts or samples at once" if request.choice_count > 1 else ""
    return f"Lower max_tokens to {fits}{several}."


def _stream_rules(request: CompletionRequest) -> str | None:
    if isinstance(request.stream_options, StreamOptions) and not request.streamed:
        return "stream_options needs stream=true."
    positions = request.prompt_logprobs
    if request.streamed and isinstance(positions, int) and positions != 0:
        return f"prompt_logprobs={positions} cannot be streamed; only 0 can."
    return None


def _job_needs(request: CompletionRequest) -> str | None:
    if not isinstance(request.model, str) or not request.model:
        return "model must be named in a job."
    if not isinstance(request.max_tokens, int):
        return "max_tokens must be set in a job."
    return None


def _job_refuses(request: CompletionRequest) -> str | None:
    if request.streamed or isinstance(request.stream_options, StreamOptions):
        return "stream: a job is not streamed; use /v1/completions for that."
    if isinstance(request.prompt_logprobs, int):
        return f"prompt_logprobs={request.prompt_logprobs}: jobs have none; use /v1/completions for them."
    if isinstance(request.logprobs, int) and request.logprobs > 0:
        return (
            f"logprobs={request.logprobs}: a job has 0 at most, each token's own; "
            "use /v1/completions for alternatives."
        )
    return None


def _job_work(request: CompletionRequest) -> str | None:
    tokens = request.max_tokens if isinstance(request.max_tokens, int) else 0
    work = request.choice_count * tokens
    if work <= MAX_JOB_TOKENS:
        return None
    return (
        f"prompts x n x max_tokens = {request.prompt_count} x {request.fan_out} x {tokens} = {work} is above "
        f"{MAX_JOB_TOKENS}, the most a job may ask for; split it, or use /v1/completions."
    )


def _short(name: str) -> str:
    return name if len(name) <= _LONGEST_NAME else name[:_LONGEST_NAME] + "…"


def _loose(body: bytes) -> Any:
    """The value of a body as Python's reader has it, which takes NaN, Infinity and lone surrogates too.

    Raises :class:`BadJson` with the place of the fault.
    """
    try:
        return json.loads(body.decode("utf-8"))  # of bytes it would guess the encoding
    except UnicodeDecodeError as problem:
        why = f"byte {problem.start} ({body[problem.start]:#04x}) is no UTF-8"
    except json.JSONDecodeError as problem:
        fault = "a byte order mark" if problem.doc.startswith("\ufeff") else problem.msg.partition(" (")[0]
        why = f"{fault} at line {problem.lineno}, column {problem.colno}" if body.strip() else "it is empty"
    except ValueError:
        return None  # a number of more digits than Python reads
    except RecursionError:
        why = "it is nested too deeply"
    raise BadJson(f"The body is not valid JSON in UTF-8: {why}.")


def _no_form(value: Any) -> BadRequest:
    # NaN and Infinity pass Python's reader, as they do the service's: then a bound is broken, not the JSON.
    for name, item in value.items() if isinstance(value, dict) else ():
        if isinstance(item, float) and not math.isfinite(item):
            return BadRequest(f"{_short(name)}={item}: not a finite number.")
        found = next((found for found in map(_SURROGATE.search, _texts([name, item])) if found), None)
        if found:
            where = f"{ascii(_short(name))[1:-1]} holds a lone surrogate (U+{ord(found[0]):04X})"
            return BadRequest(f"{where} at character {found.start()}; it has no UTF-8 form.")
    return BadRequest("The body holds a value JSON has no form for.")


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item)
    elif isinstance(value, dict):
        yield from _texts([*value, *value.values()])


def _shown(given: Any, path: str) -> str:
    value = given
    for step in re.findall(r"[^.\[\]]+", path):
        try:
            value = value[int(step)] if isinstance(value, list) else value[step]
        except (KeyError, IndexError, TypeError, ValueError):
            return "?"
    if isinstance(value, str):
        return "'…'" if len(value) > 40 else repr(value)
    text = json.dumps(value) if value is None or isinstance(value, bool) else repr(value)
    return text if len(text) <= 40 else text[:39] + "…"
