"""Which format a file has, and which function writes one.

Owns the names of the formats. It must not know looms: a session goes in and out, and lines for the user.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from ...errors import InvalidRequest
from ...log.session import Session
from . import basemode, credentials, mikupad, obsidian, plain, service, socketteer
from . import values as v
from .draft import Draft, draft_of, session_of

READ: dict[str, Any] = {
    "service": service, "obsidian": obsidian, "basemode": basemode, "mikupad": mikupad, "socketteer": socketteer,
}  # fmt: skip
_WHOLE: dict[str, Any] = {
    "service": service.write, "obsidian": obsidian.write, "basemode": basemode.write,
    "socketteer": socketteer.write, "markdown": plain.outline, "jsonl": plain.lines,
}  # fmt: skip
_PATH: dict[str, Any] = {"mikupad": mikupad.write, "text": plain.path_text}
FORMATS = ("ours", *_WHOLE, *_PATH)
_BY_ENDING = {".loom": "ours", ".md": "markdown", ".txt": "text"}
"""What an ending says by itself; ``.json`` and ``.jsonl`` are of several formats."""


SQLITE = b"SQLite format 3\x00"


def read(
    data: bytes, *, form: str | None = None, path: Path | None = None, **options: Any
) -> tuple[Session, list[str]]:
    """The session in a file of another program, and what is to be said of it. Raises ``InvalidRequest``.

    ``path``: where the data are from; only a database needs it.
    """
    database = data.startswith(SQLITE) and form in (None, "basemode") and path is not None
    draft = _database(path, options) if database else _read(data, form, options)
    _clean(draft)
    return session_of(draft), draft.notes


def _clean(draft: Draft) -> None:
    """No credentials outside of texts, which stay to the byte; what is kept aside was looked through by the readers."""
    draft.title = draft.title and v.scrubbed(draft.title, draft.notes)
    held = 0
    for node in draft.nodes.values():
        marks = {key: value for key, value in node.marks.items() if key not in ("meta", "visited")}
        node.marks |= v.scrubbed(marks, draft.notes) if marks else {}
        node.model = node.model and v.scrubbed(node.model, draft.notes)
        node.finish = node.finish and v.scrubbed(node.finish, draft.notes)
        held += credentials.shaped(node.text) or credentials.shaped(node.id)
    if held:
        who = "1 text or id looks as if it held" if held == 1 else f"{held} texts or ids look as if they held"
        draft.notes.append(f"{who} a credential; they are kept as they came: look before you share this.")


def _database(path: Any, options: dict[str, Any]) -> Draft:
    from . import basemode_db  # noqa: PLC0415  # sqlite3 loads with the first such file

    return _with(basemode_db.read, "A basemode database", path, options)


def _with(reader: Any, name: str, value: Any, options: dict[str, Any]) -> Draft:
    try:
        draft: Draft = reader(value, **options)
    except TypeError as error:
        if "unexpected keyword" not in str(error):
            raise
        raise InvalidRequest(f"{name} has no such option: {', '.join(options)}; leave it out.") from None
    return draft


def _read(data: bytes, form: str | None, options: dict[str, Any]) -> Draft:
    if form == "jsonl" or (form is None and _is_lines(data)):
        return plain.read_lines(data)
    if form is not None and form not in READ:
        raise InvalidRequest(f"{form} cannot be read; formats are {', '.join(READ)}, jsonl.")
    value = v.parsed(data)
    for name, module in READ.items():
        if form == name or (form is None and module.fits(value)):
            return _with(module.read, name, value, options)
    raise InvalidRequest(f"The file is no loom that can be told; name its format: {', '.join(READ)}, jsonl.")


def _is_lines(data: bytes) -> bool:
    """Whether the first line is a node by itself, and what follows it, if anything, begins like another."""
    first, _, rest = data.removeprefix(b"\xef\xbb\xbf").lstrip().partition(b"\n")
    if not (first.startswith(b"{") and first.rstrip().endswith(b"}") and rest.strip()[:1] in (b"{", b"")):
        return False
    try:
        one = v.maybe_table(v.parsed(first))
    except InvalidRequest:
        return rest.strip()[:1] == b"{" and first.startswith(b'{"id"')
    own = rest.strip() or not one.keys().isdisjoint({"parent_id", "marks", "tokens", "generated"})
    return {"id", "text"} <= one.keys() and "children" not in one and bool(own)


def by_ending(path: Path) -> str:
    """The format that a file's name asks for. Raises ``InvalidRequest``."""
    found = _BY_ENDING.get(path.suffix.lower())
    if found is None:
        raise InvalidRequest(
            f"{path.name} does not say its format: give one, export(path, form), of {', '.join(FORMATS)}."
        )
    return found


def write(session: Session, form: str, node: str | None = None) -> tuple[bytes, list[str]]:
    """A session in a format, and what is to be said of it. ``node``: the end of a single path."""
    if form == "ours":
        return b"".join(session.lines()), []
    draft = draft_of(session)
    if form in _WHOLE:
        return _WHOLE[form](draft), draft.notes
    if form not in _PATH:
        raise InvalidRequest(f"{form} cannot be written; choose from {', '.join(FORMATS)}.")
    node = node or draft.current
    if node is None or node not in draft.nodes:
        raise InvalidRequest(f"{form} holds one path: name the node where it ends.")
    return _PATH[form](draft, node), draft.notes
