"""The service's contract as frozen values: what is sent, what comes back, and which values are allowed.

Owns the vocabulary that the client and the local server share: requests, chunks, responses, models,
usage, error bodies, header names, and the checks that need nothing but the request itself.
It must not know how bytes travel (httpx), who asks (IPython) or what is made of the answer (pandas).

Field names, defaults and bounds are those of the service's API reference; vLLM's response shape is
as recorded from a vLLM 0.32 server (see ``tests/data/wire``).
"""

from __future__ import annotations

from typing import Annotated, Any, Literal, TypedDict

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

Prompt = str | list[str] | list[int] | list[list[int]]
"""One text, a batch of texts, one list of token ids, or a batch of lists of token ids."""

MAX_OUTPUT_WORK = 32_000
"""Upper bound of ``prompt_count * n * max_tokens`` for one request."""

MAX_JOB_TOKENS = 4096
"""Upper bound of ``prompt_count * n * max_tokens`` for a completion job."""
MAX_JOB_BODY = 64 * 2**10
"""Largest request of a completion job, in bytes of JSON."""

IDEMPOTENCY_KEY = "idempotency-key"
REQUEST_ID = "x-request-id"
WORKLOAD = "x-acs-workload"
CLAMPED = "x-acs-max-tokens-clamped"
SHOULD_RETRY = "x-should-retry"
RETRY_AFTER = "retry-after"
UPSTREAM_MODEL = "x-acs-upstream-model"
UPSTREAM_GPU = "x-acs-upstream-gpu"
UPSTREAM_ERROR_KIND = "x-acs-upstream-error-kind"
ON_LEAVE = "x-acs-on-leave"
"""``usage`` at the head of a stream: a client that closes its side alone is told what the stream has cost."""

Penalty = Annotated[float, Meta(ge=-2.0, le=2.0)]
TopK = Annotated[int, Meta(ge=0, le=100)]
TopKOrAll = Annotated[int, Meta(ge=-1, le=100)]


class StreamOptions(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a stream adds to its chunks; allowed only together with ``stream=True``."""

    include_usage: bool | UnsetType = UNSET
    continuous_usage_stats: bool | UnsetType = UNSET


class CompletionRequest(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The body of ``POST /v1/completions``; a field left ``UNSET`` is not sent."""

    prompt: str | list[str | int | list[int]]
    model: str | None | UnsetType = UNSET
    max_tokens: Annotated[int, Meta(ge=1, le=1_000_000)] | None | UnsetType = UNSET
    n: Annotated[int, Meta(ge=1, le=16)] | UnsetType = UNSET
    stop: str | Annotated[list[str], Meta(max_length=4)] | None | UnsetType = UNSET
    temperature: Annotated[float, Meta(ge=0.0, le=100.0)] | UnsetType = UNSET
    top_p: Annotated[float, Meta(gt=0.0, le=1.0)] | UnsetType = UNSET
    top_k: Annotated[int, Meta(ge=-1)] | UnsetType = UNSET
    min_p: Annotated[float, Meta(ge=0.0, le=1.0)] | UnsetType = UNSET
    presence_penalty: Penalty | UnsetType = UNSET
    frequency_penalty: Penalty | UnsetType = UNSET
    repetition_penalty: Annotated[float, Meta(gt=0.0, le=2.0)] | UnsetType = UNSET
    seed: Annotated[int, Meta(ge=0, le=2**63 - 1)] | None | UnsetType = UNSET
    logprobs: TopK | None | UnsetType = UNSET
    prompt_logprobs: TopKOrAll | None | UnsetType = UNSET
    echo: bool | UnsetType = UNSET
    stream: bool | UnsetType = UNSET
    stream_options: StreamOptions | None | UnsetType = UNSET
    user: str | None | UnsetType = UNSET
    add_special_tokens: bool | UnsetType = UNSET

    @property
    def prompt_count(self) -> int:
        """How many prompts the request carries (one list of token ids is one prompt)."""
        prompt: object = self.prompt
        if not isinstance(prompt, list) or not prompt or isinstance(prompt[0], int):
            return 1
        return len(prompt)

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts one by one, each a text or a list of token ids."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        if self.prompt and isinstance(self.prompt[0], int):
            return [list(self.prompt)]  # type: ignore[arg-type]
        return list(self.prompt)  # type: ignore[arg-type]

    @property
    def fan_out(self) -> int:
        """``n``, or 1 when it is not sent."""
        return self.n if isinstance(self.n, int) and self.n > 1 else 1

    @property
    def streamed(self) -> bool:
        """Whether the answer is asked for as a stream."""
        return self.stream is True

    @property
    def choice_count(self) -> int:
        """Number of choices the answer will hold: ``prompt_count * n``, prompt-major."""
        return self.prompt_count * self.fan_out


class Unchecked(CompletionRequest, frozen=True, kw_only=True):
    """A request that nobody judged: ``given`` is sent as it is, the fields are what can be read of it."""

    given: dict[str, Any]

    @property
    def prompts(self) -> list[str | list[int]]:
        """The prompts as far as they have the shape of prompts."""
        listed = self.prompt if self.prompt_count > 1 else [self.prompt]
        return [prompt if isinstance(prompt, (str, list)) else "" for prompt in listed]  # type: ignore[misc]


class Fields(TypedDict, total=False):
    """The parameters of a request as keyword arguments, under the contract's names; ``None`` means "not sent"."""

    model: str | None
    max_tokens: int | None
    n: int | None
    stop: str | list[str] | None
    temperature: float | None
    top_p: float | None
    top_k: int | None
    min_p: float | None
    presence_penalty: float | None
    frequency_penalty: float | None
    repetition_penalty: float | None
    seed: int | None
    logprobs: int | None
    prompt_logprobs: int | None
    echo: bool | None
    stream: bool | None
    stream_options: StreamOptions | dict[str, bool] | None
    user: str | None
    add_special_tokens: bool | None
    validate: bool


REQUEST_FIELDS: tuple[str, ...] = CompletionRequest.__struct_fields__
SAMPLING_FIELDS: tuple[str, ...] = (
    "max_tokens", "n", "temperature", "top_p", "top_k", "min_p", "presence_penalty",
    "frequency_penalty", "repetition_penalty", "seed", "stop", "logprobs", "prompt_logprobs",
    "echo", "add_special_tokens",
)  # fmt: skip
INTEGER_FIELDS = frozenset({"max_tokens", "n", "top_k", "seed", "logprobs", "prompt_logprobs"})
BOOLEAN_FIELDS = frozenset({"echo", "stream", "add_special_tokens"})


MOST_TOKENS = 2**53
"""No answer has more, nor fewer than none: a usage that says so is taken as not told."""


class Usage(Struct, frozen=True, gc=False):
    """Tokens counted by the engine: told whole or not at all, so that half of one is never taken for a bill."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int = 0

    @property
    def possible(self) -> bool:
        """Whether there can be such counts."""
        return 0 <= self.prompt_tokens <= MOST_TOKENS and 0 <= self.completion_tokens <= MOST_TOKENS


class Logprobs(Struct, gc=False):
    """Per generated token: its text, its natural-log probability, and the alternatives by decoded text.

    ``top_logprobs`` may hold fewer entries than asked for: token ids that decode alike collapse into one key.
    ``text_offset`` is unreliable in streams and is not read by the client.
    """

    tokens: tuple[str, ...] = ()
    token_logprobs: tuple[float | None, ...] = ()
    top_logprobs: tuple[dict[str, float] | None, ...] | None = None
    text_offset: tuple[int, ...] = ()


class PromptLogprob(Struct, frozen=True, gc=False):
    """One entry of a prompt position: natural-log probability, rank (1 = most likely), decoded text."""

    logprob: float
    rank: int | None = None
    decoded_token: str | None = None


class Choice(Struct, gc=False):
    """One continuation, or the next piece of one in a stream chunk."""

    index: int = 0
    text: str = ""
    logprobs: Logprobs | None = None
    finish_reason: str | None = None
    stop_reason: str | int | None = None
    prompt_logprobs: list[dict[str, PromptLogprob] | None] | None = None


class ErrorInfo(Struct, frozen=True, kw_only=True):
    """What stands under ``error``. vLLM itself puts an integer into ``code``."""

    code: str | int | None = None
    message: str = ""
    type: str | None = None
    retryable: bool | None = None
    retry_after_seconds: float | None = None


class Answer(Struct, kw_only=True, gc=False):
    """A response body or one stream chunk. ``error`` is looked at before ``choices``, whatever the status."""

    id: str = ""
    object: str = ""
    created: int = 0
    model: str = ""
    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: ErrorInfo | str | None = None
    request_id: str | None = None
    system_fingerprint: str | None = None


class Capabilities(Struct, frozen=True, kw_only=True):
    """A model's limits; ``None`` means the server does not say."""

    max_model_len: int | None = None
    max_logprobs: int | None = None
    max_output_work_tokens: int | None = None
    max_inflight_per_key: int | None = None
    max_queued_per_key: int | None = None
    rate_limit_per_minute: int | None = None
    logprobs: bool | None = None
    prompt_logprobs: bool | None = None
    prompt_logprobs_full_vocab: bool | None = None
    full_vocab_max_prompt_tokens: int | None = None
    n_layers: int | None = None


class Model(Struct, frozen=True, kw_only=True):
    """One entry of ``GET /v1/models``; requests send ``id``, responses show ``served_model_name``."""

    id: str
    object: str = "model"
    owned_by: str = ""
    served_model_name: str | None = None
    gpu_shape: str | None = None
    status: str | None = None
    default: bool = False
    capabilities: Capabilities = Capabilities()


class ModelList(Struct, frozen=True, kw_only=True):
    """The body of ``GET /v1/models``."""

    data: list[Model] = []
    object: str = "list"


class BootStage(Struct, frozen=True, kw_only=True):
    """How far a model's start has come; ``stage_age_s`` is in seconds."""

    stage: str = ""
    stage_label: str = ""
    stage_age_s: float | None = None


class ModelStatus(Struct, frozen=True, kw_only=True):
    """The body of ``GET /v1/models/{id}/status``: whether a model is warm, and if not how its start goes."""

    id: str = ""
    warm: bool | None = None
    boot: BootStage | None = None


class Clamp(Struct, frozen=True):
    """The ``X-Acs-Max-Tokens-Clamped`` header: the server lowered ``max_tokens``."""

    requested: int | None
    applied: int | None
    reason: str = ""
    source: str = ""


def parse_clamp(header: str | None) -> Clamp | None:
    """Read the clamp header; unknown keys are ignored, non-integers become ``None``."""
    if not header:
        return None
    fields = dict(part.split("=", 1) for part in header.split(",") if "=" in part)

    def number(name: str) -> int | None:
        text = fields.get(name, "").strip()
        return int(text) if text.isdecimal() else None

    return Clamp(number("requested"), number("applied"), fields.get("reason", ""), fields.get("source", ""))


_answer_decoder = msgspec.json.Decoder(Answer)
_models_decoder = msgspec.json.Decoder(ModelList)
_encoder = msgspec.json.Encoder()

decode_answer = _answer_decoder.decode
"""Bytes of one JSON body or one chunk to an :class:`Answer`; raises ``msgspec.DecodeError``."""
decode_models = _models_decoder.decode
decode_status = msgspec.json.Decoder(ModelStatus).decode


def encode_request(request: CompletionRequest) -> bytes:
    """The JSON body of a request: only the fields that are set, text as it is."""
    return _encoder.encode(request.given if isinstance(request, Unchecked) else request)


def request_fields(request: CompletionRequest) -> dict[str, Any]:
    """The fields a request sends, as plain values, in the contract's order."""
    fields: dict[str, Any] = msgspec.to_builtins(request.given if isinstance(request, Unchecked) else request)
    return fields


def sampling_of(request: CompletionRequest) -> dict[str, Any]:
    """The parameters of a request without its prompt, model and transport fields."""
    fields = request_fields(request)
    return {name: fields[name] for name in SAMPLING_FIELDS if name in fields}


class Job(Struct, frozen=True, kw_only=True):
    """What a server tells about a completion job; what it does not tell is ``None``.

    ``status`` is the server's word and may be one nobody knows yet; it never says by itself what the job gave: the
    result endpoint does. ``usage_pending``: a reservation is still held. Times are as sent (seconds since the epoch
    or ISO 8601). ``fields`` holds everything the server said. ``found``: after a submission, whether the job had been
    there before; never the server's word.
    """

    id: str
    status: str = ""
    status_url: str | None = None
    result_url: str | None = None
    usage_pending: bool | None = None
    cancel_requested: bool | None = None
    model: str | None = None
    request_id: str | None = None
    created_at: float | str | None = None
    started_at: float | str | None = None
    ended_at: float | str | None = None
    expires_at: float | str | None = None
    result_expires_at: float | str | None = None
    fields: dict[str, Any] = {}
    found: bool | None = None

    def __repr__(self) -> str:
        """Each thing once: ``fields`` repeats what has a name of its own."""
        names = [name for name in self.__struct_fields__ if name != "fields"]
        told = [f"{name}={getattr(self, name)!r}" for name in names if getattr(self, name) is not None]
        told += [f"{name}={value!r}" for name, value in self.fields.items() if name not in (*names, "job_id")]
        return f"Job({', '.join(told)})"


def decode_job(data: bytes, job_id: str | None = None) -> Job:
    """A job from a body; a field of an unexpected type counts as not told. Raises ``msgspec.DecodeError``.

    ``job_id`` is the id when the body does not repeat it.
    """
    said = msgspec.json.decode(data, type=dict[str, Any])
    known = {
        name: value
        for name, value in said.items()
        if name in Job.__struct_fields__ and name not in ("fields", "found")
    }
    if "id" not in known:
        known["id"] = said.get("job_id", job_id)
    job: Job = msgspec.convert({name: value for name, value in known.items() if _fits(name, value)}, Job)
    return msgspec.structs.replace(job, fields=said)


def _fits(name: str, value: Any) -> bool:
    try:
        msgspec.convert({"id": "", name: value}, Job)
    except msgspec.ValidationError:
        return False
    return True


Outcome = Literal["open", "done", "stopped", "interrupted", "failed"]
"""How a request stands: still coming, complete, stopped by the user, cut by the network, refused."""


def default_of(models: list[Model]) -> str | None:
    """The id of the model that answers where none is named: the default, else the first."""
    return next((model.id for model in sorted(models, key=lambda one: not one.default)), None)
