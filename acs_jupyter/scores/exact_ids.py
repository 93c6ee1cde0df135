"""A completion's token ids, recovered by one scoring request.

Owns the meeting of a completion with the probes of ``token_ids.py``. It must not know widgets, nor how branches are
made of ids.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..client import Client
from ..errors import InvalidRequest, NoPromptLogprobs
from ..token_ids import Found, Unknown, found, probes, scoring_fields
from ..wire import Usage

if TYPE_CHECKING:
    from ..completion import Completion


@dataclass(frozen=True)
class ExactIds:
    """Token ids of a prompt and of the text that continues it, as the server reads them.

    ``prompt`` has the start token in front, if the server puts one; as a token prompt these ids are sent verbatim.
    ``differs``: the first of the model's own tokens that the server reads otherwise (a model may write a text in other
    tokens than a tokenizer reads it in); ``None`` when it reads them as they were written. ``seam`` says whether a
    token ends where the prompt does; if not, the token that spans it is the first of ``text``. ``usage`` is what the
    scoring request took.
    """

    prompt: list[int]
    text: list[int]
    differs: int | None
    seam: bool
    usage: Usage


def with_ids(completion: Completion, client: Client | None = None, *, choice: int = 0) -> ExactIds:
    """Ids of one choice of a completion; costs one request of about the text's length and some short probes.

    Without a ``client`` one is made from the environment. Raises :class:`NoPromptLogprobs` when the server does not
    tell, :class:`InvalidRequest` for prompts that are ids already or texts that are empty.
    """
    listed = completion.choices
    if not 0 <= choice < len(listed):
        raise InvalidRequest(f"choice={choice} must be from 0 to {len(listed) - 1}.")
    one = listed[choice]
    before, text = one.prompt, one.text
    if not before and one._node.parent and completion.session.nodes[one._node.parent].ids:
        raise InvalidRequest("The prompt was token ids already; use completion.prompt.")
    whole = text if one._node.echo else before + text
    own = client or Client()
    try:
        asked = probes(whole)
        scored = own.complete(**scoring_fields(asked, completion.request))
        positions = [scored.session.nodes[c._node.parent or ""].scores or [] for c in scored.choices]
        ids = found(whole, "", positions, [token.text for token in one.tokens])
        return _split(
            ids, [entries[0][1] for entries in positions[0] if entries], whole, len(before), scored.usage
        )
    except Unknown as problem:
        raise NoPromptLogprobs(str(problem)) from None
    finally:
        if client is None:
            own.close()


def _split(ids: Found, read: list[str], whole: str, edge: int, usage: Usage) -> ExactIds:
    place = len(whole) - sum(map(len, read))
    count = len(ids.ids) - len(read)
    for text in read:
        if place + len(text) > edge:
            break
        place += len(text)
        count += 1
    return ExactIds(ids.ids[:count], ids.ids[count:], ids.differs, place == edge, usage)
