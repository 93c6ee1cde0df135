"""Which entry of a position is the text's own, and which characters of the text each token has.

Owns the check that a server's scores belong to what was sent: numbers of other tokens are refused, never told. It must
not know requests or scores.

vLLM puts the text's own token first, whatever its rank. A server that sorts by rank, or leaves positions out, would
give numbers that look right; token ids tell it at once, and a text by the texts of its tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..errors import NoPromptLogprobs
from ..log.events import Scored

Positions = Sequence[list[Scored] | None]
SLACK = 24
"""Characters that a token which the server decodes otherwise may have in the text."""


def all_told(positions: Positions) -> list[list[Scored]]:
    """The positions that were scored: all, or all but the first. Raises :class:`NoPromptLogprobs` for others."""
    told = [entries for entries in positions if entries]
    if len(told) < len(positions) - bool(positions and not positions[0]):
        silent = next(place for place, entries in enumerate(positions) if place and not entries)
        raise NoPromptLogprobs(f"The server told nothing of position {silent}: its scores cannot be used.")
    return told


def own_by_ids(ids: list[int], positions: Positions) -> list[Scored | None]:
    """The entry of each id of a prompt, ``None`` where nothing was told. Raises :class:`NoPromptLogprobs`."""
    if len(positions) != len(ids):
        raise NoPromptLogprobs(
            f"The server told {len(positions)} positions of {len(ids)} token ids: its scores cannot be used."
        )
    return [
        _of(token, place, entries) for place, (token, entries) in enumerate(zip(ids, positions, strict=True))
    ]


def _of(token: int, place: int, entries: list[Scored] | None) -> Scored | None:
    if not entries:
        return None
    if entries[0][0] == token:
        return entries[0]
    for entry in entries:
        if entry[0] == token:
            return entry
    raise NoPromptLogprobs(
        f"At position {place} the server scored token {entries[0][0]} where {token} was sent: "
        "its scores cannot be used."
    )


def fitted(text: str, scored: Sequence[list[Scored]]) -> list[str]:
    """The characters that each scored token has of a text; what is in front of the first is the text's beginning.

    A token that the server decodes otherwise (a byte of a character, another form of it) has the characters between its
    neighbours. Raises :class:`NoPromptLogprobs` when most tokens are none of this text.
    """
    told = [entries[0][1] for entries in scored]
    if text.endswith("".join(told)):
        return told
    found, strange = _laid(text, told)
    visible = sum(1 for piece in told if piece.strip("\ufffd"))
    others = sum(any(_ends(text, entry[1]) for entry in scored[place][1:]) for place in strange)
    if 2 * len(strange) > visible and (len(strange) > 1 or others):
        place = strange[-1]
        raise NoPromptLogprobs(
            f"The server scored {told[place]!r}, which the text does not have there: its scores are of other tokens. "
            "Score with top=0, or token ids."
        )
    return found


def _ends(text: str, piece: str) -> bool:
    return bool(piece) and piece in text


def _laid(text: str, told: list[str]) -> tuple[list[str], list[int]]:
    """Token texts laid on a text from its end, and the places of those that do not stand where they should."""
    found, end = [""] * len(told), len(text)
    strange: list[int] = []
    waiting: list[int] = []  # tokens without a place, whose characters end at `end`
    for place in range(len(told) - 1, -1, -1):
        piece = told[place]
        stop = end if text.endswith(piece, 0, end) else -1
        if piece and stop < 0 and waiting:
            start = text.rfind(piece, max(0, end - SLACK * len(waiting) - len(piece)), end)
            stop = -1 if start < 0 else start + len(piece)
        if not piece.strip("\ufffd") or stop < 0:
            waiting.append(place)
            if piece.strip("\ufffd"):
                strange.append(place)
            continue
        if waiting:
            found[waiting[0]] = text[stop:end]
            waiting.clear()
        found[place] = piece
        end = stop - len(piece)
    return found, strange[::-1]
