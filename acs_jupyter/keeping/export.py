"""A notebook's completions as a file that other programs read: JSONL, text, CSV, Parquet.

Owns the forms and their columns. It must not know how a notebook keeps a completion, nor kernels.

JSONL has one completion a line, with its request and all choices. CSV and Parquet have one row a choice, or with
``tokens`` one row a token: ``logprob`` in nats, ``surprisal`` in bits, ``rank`` 1 = most likely (empty where
the token is not among the returned likeliest), ``top`` the
alternatives as text to logprob. Text is for reading: every choice behind its prompt, below a line about it.
"""

from __future__ import annotations

import csv
import io
import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ..errors import InvalidRequest
from ..machine import whole_file
from .record import load

if TYPE_CHECKING:
    from ..completion import Choice, Completion

Numbers = dict[tuple[int, str], int]
FORMS = {".jsonl": "jsonl", ".txt": "text", ".csv": "csv", ".parquet": "parquet"}
CHOICE_COLUMNS = (
    "completion", "branch_of", "choice", "prompt", "text", "finish_reason", "stop_reason", "logprob", "model", "seed",
    "temperature", "max_tokens", "outcome", "request_id", "prompt_tokens", "completion_tokens",
)  # fmt: skip
TOKEN_COLUMNS = (
    "completion", "choice", "index", "token", "logprob", "probability", "surprisal", "rank", "other", "top",
)  # fmt: skip
_KINDS = {
    "completion": "int64",
    "branch_of": "int64",
    "temperature": "float64",
    "max_tokens": "int64",
    "stop_reason": "string",
}


def export(
    notebook: str | os.PathLike[str],
    *,
    to: str | os.PathLike[str] | None = None,
    form: str | None = None,
    tokens: bool = False,
    overwrite: bool = False,
) -> int:
    """Write what a notebook keeps to a file, or to standard output; 0, or 1 when it keeps no completion.

    Raises :class:`InvalidRequest` or ``ValueError`` in one line, ``OSError`` when the notebook cannot be read.
    """
    path = None if to is None else Path(to).expanduser()
    form = form or _form_of(path)
    if path is None and form == "parquet":
        raise InvalidRequest("Parquet needs a file: --to FILE.parquet.")
    if form == "text" and tokens:
        raise InvalidRequest("--tokens goes with jsonl, csv and parquet; text has none.")
    if path is not None and path.exists() and not overwrite:
        raise InvalidRequest(f"{path} is there already; --overwrite replaces it.")
    found = load(notebook)
    if not found:
        print(
            f"{notebook} keeps no completion (acs-jupyter strip --records takes them out).", file=sys.stderr
        )
        return 1
    if form == "parquet":
        assert path is not None
        _write_parquet(found, tokens, path)
    elif path is None:
        sys.stdout.buffer.write(_text_of(found, form, tokens))
    else:
        _write(path, _text_of(found, form, tokens))
    if path is not None:
        print(f"{len(found):,} completion{'' if len(found) == 1 else 's'} in {path}")
    return 0


def _form_of(path: Path | None) -> str:
    if path is None:
        return "jsonl"
    if path.suffix.lower() not in FORMS:
        raise InvalidRequest(f"{path}: a name that ends in {', '.join(FORMS)} is needed, or --form.")
    return FORMS[path.suffix.lower()]


def _text_of(found: list[Completion], form: str, tokens: bool) -> bytes:
    numbers = _numbers(found)
    if form == "jsonl":
        lines = (json.dumps(told(one, numbers, tokens=tokens), ensure_ascii=False) + "\n" for one in found)
        return "".join(lines).encode("utf-8", "surrogatepass")
    if form == "text":
        return "\n".join(_readable(one, numbers) for one in found).encode("utf-8", "surrogatepass")
    file = io.StringIO(newline="")
    writer = csv.DictWriter(file, TOKEN_COLUMNS if tokens else CHOICE_COLUMNS, lineterminator="\n")
    writer.writeheader()
    for row in _rows(found, tokens):
        writer.writerow(
            {n: json.dumps(v, ensure_ascii=False) if isinstance(v, dict) else v for n, v in row.items()}
        )
    return file.getvalue().encode("utf-8", "surrogatepass")


def told(completion: Completion, numbers: Numbers, *, tokens: bool) -> dict[str, Any]:
    """One line of JSONL: what was sent, what came, who answered, what it took."""
    usage = completion.usage
    return {
        "completion": numbers[_key(completion)],
        "branch_of": _branch_of(completion, numbers),
        "request": completion.request,
        "model": completion.model,
        "outcome": completion.outcome,
        "id": completion.id,
        "request_id": completion.request_id,
        "usage": {"prompt_tokens": usage.prompt_tokens, "completion_tokens": usage.completion_tokens},
        "usage_source": completion.usage_source,
        "choices": [_choice(choice, tokens) for choice in completion.choices],
    }


def _choice(choice: Choice, tokens: bool) -> dict[str, Any]:
    whole = {
        "index": choice.index,
        "text": choice.text,
        "kept_text": choice.kept_text,
        "finish_reason": choice.finish_reason,
        "stop_reason": choice.stop_reason,
        "logprob": choice.logprob,
    }
    if tokens:
        whole["tokens"] = [{"token": t.text, "logprob": t.logprob, "top": t.top} for t in choice.tokens]
    return whole


def _readable(completion: Completion, numbers: Numbers) -> str:
    number, above = numbers[_key(completion)], _branch_of(completion, numbers)
    parts = []
    for choice in completion.choices:
        name = f"{number}" if len(completion.choices) == 1 else f"{number}:{choice.index + 1}"
        about = [f"completion {name}", *([f"branch of {above}"] if above else []), str(completion.model)]
        about += [choice.finish_reason or completion.outcome]
        parts.append(f"=== {', '.join(about)}\n{choice.prompt}{choice.text}\n")
    return "\n".join(parts)


def _rows(found: list[Completion], tokens: bool) -> Iterator[dict[str, Any]]:
    numbers = _numbers(found)
    for completion in found:
        for choice in completion.choices:
            if tokens:
                yield from _token_rows(numbers[_key(completion)], choice)
            else:
                yield _row(completion, choice, numbers)


def _row(completion: Completion, choice: Choice, numbers: Numbers) -> dict[str, Any]:
    usage, request = completion.usage, completion.request
    return {
        "completion": numbers[_key(completion)],
        "branch_of": _branch_of(completion, numbers),
        "choice": choice.index,
        "prompt": choice.prompt,
        **{name: getattr(choice, name) for name in ("text", "finish_reason", "stop_reason", "logprob")},
        **{name: request.get(name) for name in ("seed", "temperature", "max_tokens")},
        **{name: getattr(completion, name) for name in ("model", "outcome", "request_id")},
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
    }


def _token_rows(number: int, choice: Choice) -> Iterator[dict[str, Any]]:
    same = ("index", "logprob", "probability", "surprisal", "rank", "other", "top")
    for token in choice.tokens:
        told = {name: getattr(token, name) for name in same}
        yield {"completion": number, "choice": choice.index, "token": token.text, **told}


def _numbers(found: list[Completion]) -> Numbers:
    """Each run's place in the notebook, from 1: how a branch names what it was branched from."""
    return {_key(completion): number for number, completion in enumerate(found, start=1)}


def _key(completion: Completion) -> tuple[int, str]:
    # Records of a copied cell name their runs alike; each is read into a session of its own.
    return id(completion.session), completion.run


def _branch_of(completion: Completion, numbers: Numbers) -> int | None:
    source = completion.source
    return None if source is None else numbers.get(_key(source))


def _write_parquet(found: list[Completion], tokens: bool, path: Path) -> None:
    from ..rollouts.parquet import write_parquet  # noqa: PLC0415  # needs pyarrow

    columns = list(TOKEN_COLUMNS if tokens else CHOICE_COLUMNS)
    write_parquet(_rows(found, tokens), columns, _KINDS, path)


def _write(path: Path, content: bytes) -> None:
    """The whole file or none of it."""
    try:
        whole_file.write(path, content)
    except OSError as problem:
        raise InvalidRequest(
            f"{path} cannot be written: {problem.strerror or problem}. Name another place."
        ) from None
