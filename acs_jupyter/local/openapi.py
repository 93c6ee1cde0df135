"""The specification of the public API, made from the structs that requests are checked with.

Owns the document, and the words on headers, parameters and fields; the operations stand beside it.
It must not know how a request is answered. Bounds are never written here: they come from ``wire``.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import msgspec

from .._version import __version__
from ..errors import CATALOGUE
from ..wire import CompletionRequest, ModelList
from .openapi_operations import OPERATIONS, Operation
from .openapi_shapes import Completion, Error, Health, Job, ModelStatus

PAGE = Path(__file__).with_name("swagger.html")
PAGE_POLICY = (
    "default-src 'none'; connect-src 'self'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "frame-ancestors 'none'; base-uri 'none'"
)
"""Content-Security-Policy of the page: nothing from outside."""
_SHAPES = (CompletionRequest, Completion, ModelList, ModelStatus, Health, Job, Error)
_ALWAYS = {403: ("host_not_allowed",), 500: ("internal_error",)}

_HEADERS: dict[str, tuple[str, dict[str, Any]]] = {
    "X-Request-Id": (
        "Unique for this request; a valid id that the client sent comes back.",
        {"type": "string"},
    ),
    "X-Acs-Upstream-Model": ("The checkpoint that served, or failed to serve.", {"type": "string"}),
    "X-Acs-Upstream-Gpu": ("Where it runs.", {"type": "string"}),
    "X-Acs-Upstream-Error-Kind": (
        "The error's code, when what is behind the server failed.",
        {"type": "string"},
    ),
    "X-Acs-Max-Tokens-Clamped": (
        "max_tokens was lowered: requested=N,applied=M,reason=budget|deadline|deadline+budget,source=client|default.",
        {"type": "string", "pattern": "^requested=.*,applied=[0-9]+"},
    ),
    "X-Acs-On-Leave": (
        "On a stream: a client that closes its side of the connection alone is told what the stream has cost.",
        {"type": "string", "enum": ["usage"]},
    ),
    "X-Should-Retry": ("Sent when the same request would fail again.", {"type": "string", "enum": ["false"]}),
    "Retry-After": ("Seconds to wait before a new attempt; on errors a retry can cure.", {"type": "string"}),
}
_ON_ERROR = {
    400: ("X-Acs-Upstream-Error-Kind", "X-Should-Retry"),
    409: ("X-Should-Retry",),
    410: ("X-Should-Retry",),
    413: ("X-Should-Retry",),
    429: ("Retry-After",),
    502: ("X-Acs-Upstream-Error-Kind", "Retry-After"),
    503: ("X-Acs-Upstream-Error-Kind", "Retry-After"),
    504: ("X-Acs-Upstream-Error-Kind", "X-Should-Retry"),
}
_PARAMETERS: dict[str, dict[str, Any]] = {
    "id": {"name": "id", "in": "path", "required": True, "schema": {"type": "string"},
           "description": "A model id from GET /v1/models."},
    "job": {"name": "id", "in": "path", "required": True, "schema": {"type": "string"},
            "description": "The id that submitting gave; a job is known to its own key only."},
    "Idempotency-Key": {"name": "Idempotency-Key", "in": "header", "required": True,
                        "schema": {"type": "string", "pattern": "^[!-~]{1,128}$"},
                        "description": "1 to 128 visible ASCII characters that name this submission."},
    "X-Request-Id": {"name": "X-Request-Id", "in": "header", "schema": {"type": "string"},
                     "description": "Your own trace id: 1 to 64 letters, digits, _ or -; others are replaced."},
    "X-Acs-Workload": {"name": "X-Acs-Workload", "in": "header", "schema": {"type": "string"},
                       "description": "interactive or batch; a hint, anything else is ignored."},
}  # fmt: skip

_FIELDS: dict[str, tuple[Any, str]] = {
    "model": (None, "Id from GET /v1/models; without it the default model answers."),
    "prompt": (
        None,
        "A text, a list of texts, token ids, or a list of lists of token ids. No template is applied.",
    ),
    "max_tokens": (
        None,
        "Tokens to generate for each choice; left out, the rest of the context up to 32000.",
    ),
    "n": (1, "Samples for each prompt."),
    "stop": (None, "Texts that end a choice; they are not part of it."),
    "temperature": (1.0, "0 is greedy."),
    "top_p": (1.0, "Keep the likeliest tokens up to this probability."),
    "top_k": (-1, "Keep this many likeliest tokens; -1 keeps all, 0 is refused."),
    "min_p": (0.0, "Least probability of a token, relative to the likeliest."),
    "presence_penalty": (0.0, "Against tokens that have occurred."),
    "frequency_penalty": (0.0, "Against tokens by how often they occurred."),
    "repetition_penalty": (1.0, "Divides the scores of tokens that occurred; 1 is off."),
    "seed": (None, "Makes sampling repeatable for equal parameters."),
    "logprobs": (
        None,
        "Alternatives for each generated token; 0 gives the token's own log-probability only.",
    ),
    "prompt_logprobs": (None, "Alternatives at each prompt position; -1 is the whole vocabulary."),
    "echo": (False, "Put the prompt before the continuation."),
    "stream": (False, "Answer as server-sent events."),
    "stream_options": (None, "Usage in a stream; only with stream."),
    "user": (None, "A note of your own; without effect."),
    "add_special_tokens": (True, "Whether the tokenizer puts its start token before texts."),
}


@cache
def specification() -> bytes:
    """The document as JSON."""
    return msgspec.json.encode(document())


def document() -> dict[str, Any]:
    """OpenAPI 3.1 of everything under /v1, and of /health."""
    paths: dict[str, dict[str, Any]] = {}
    for operation in OPERATIONS:
        paths.setdefault(operation.path, {})[operation.method] = _operation(operation)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Completions of base models",
            "version": __version__,
            "description": "Raw next-token generation: no chat, no template. Errors have one form on every path.",
        },
        "servers": [{"url": "/"}],
        "paths": paths,
        "components": {
            "schemas": _schemas(),
            "headers": {
                name: {"description": words, "schema": schema} for name, (words, schema) in _HEADERS.items()
            },
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer", "description": "ACS_API_KEY"}},
        },
    }


def _operation(operation: Operation) -> dict[str, Any]:
    name = operation.path.removeprefix("/v1").strip("/").replace("/", "_").replace("{", "").replace("}", "")
    found: dict[str, Any] = {
        "operationId": f"{operation.method}_{name}".replace("-", "_"),
        "summary": operation.summary,
        "description": operation.description,
        "security": [{"key": []}] if operation.secured else [],
        "parameters": [_PARAMETERS[name] for name in operation.parameters],
        "responses": _responses(operation),
    }
    if operation.body:
        found["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _ref(operation.body)}},
        }
    return found


def _responses(operation: Operation) -> dict[str, Any]:
    responses: dict[str, Any] = {}
    if operation.answer:
        responses["200"] = {
            "description": "The answer.",
            "headers": _headers(operation.headers),
            "content": {kind: {"schema": _ref(schema)} for kind, schema in operation.answer.items()},
        }
    for status, (words, schema, names) in operation.also.items():
        responses[str(status)] = {
            "description": words,
            "headers": _headers(names),
            "content": {"application/json": {"schema": _ref(schema)}},
        }
    if operation.path == "/health":
        responses["503"] = responses["200"] | {"description": "Nothing can be served."}
    for status, codes in sorted((operation.errors | _ALWAYS).items()):
        responses[str(status)] = {
            "description": "  \n".join(f"`{code}`: {_told(code)}" for code in codes),
            "headers": _headers(_ON_ERROR.get(status, ())),
            "content": {"application/json": {"schema": _ref("Error")}},
        }
    return responses


def _headers(names: tuple[str, ...]) -> dict[str, Any]:
    return {name: {"$ref": f"#/components/headers/{name}"} for name in ("X-Request-Id", *names)}


def _ref(schema: str | dict[str, Any]) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{schema}"} if isinstance(schema, str) else schema


def _told(code: str) -> str:
    kind = CATALOGUE.get(code)
    return (kind.__doc__ or "").strip() if kind else "The Host header is not one of this server's names."


def _schemas() -> dict[str, Any]:
    _, schemas = msgspec.json.schema_components(_SHAPES, ref_template="#/components/schemas/{name}")
    fields = schemas["CompletionRequest"]["properties"]
    schemas["CompletionRequest"]["description"] = "What to continue, and how."
    ids = {"type": "array", "items": {"type": "integer"}, "minItems": 1}
    texts = {"type": "array", "items": {"type": "string"}, "minItems": 1}
    fields["prompt"] = {
        "anyOf": [{"type": "string"}, texts, ids, {"type": "array", "items": ids, "minItems": 1}]
    }
    for name, (default, words) in _FIELDS.items():
        fields[name] |= {"description": words} | ({} if default is None else {"default": default})
    return schemas
