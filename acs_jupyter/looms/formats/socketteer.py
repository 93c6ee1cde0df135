"""The JSON of socketteer's loom: a full file, a bare node, or a list of nodes.

Owns that format. It must not know sessions. Tokens come from ``model_responses``, from a backup of them, or from
``meta.generation`` of older trees; a token's position may be a number or a pair and is not needed.
"""

from __future__ import annotations

from typing import Any

import msgspec

from ...errors import InvalidRequest
from . import values as v
from .draft import Draft, DraftNode, logprob

_MOST_DEEP = 450
_PLACEHOLDER = "\n\n** Generating **"
_KNOWN = {
    "id",
    "text",
    "children",
    "parent_id",
    "parentId",
    "tags",
    "notes",
    "open",
    "visited",
    "generation",
    "bookmark",
}

_TOKEN = {"generatedToken", "position", "counterfactuals"}


def fits(data: Any) -> bool:
    """Whether it looks like this format."""
    if isinstance(data, dict):
        root = data.get("root", data)
        return "root" in data or (isinstance(root, dict) and "text" in root)
    return isinstance(data, list)


def read(data: Any, responses: Any = None) -> Draft:
    """The tree in parsed JSON; ``responses`` is a parsed backup of ``model_responses``."""
    draft = Draft()
    whole = data if isinstance(data, dict) and "root" in data else {}
    answers = {**_answers(whole.get("model_responses")), **_answers(responses)}
    tops = data if isinstance(data, list) else [whole.get("root", data)]
    waiting: list[tuple[Any, str | None]] = [(one, None) for one in reversed(tops)]
    used: set[tuple[str, Any]] = set()
    count = 0
    while waiting:
        given, parent = waiting.pop()
        count += 1
        node = _node(v.table(given, "A node"), parent, count, answers, draft)
        draft.add(node)
        made = v.maybe_table(given.get("generation"))
        used.add((str(made.get("id")), made.get("index") if isinstance(made.get("index"), int) else None))
        below = v.listed(given.get("children"), f"The children of node {node.id[:40]}")
        waiting += [(one, node.id) for one in reversed(below)]
    draft.current = v.maybe_text(whole.get("selected_node_id"))
    _say_answers(answers, used, draft)
    extra = v.scrubbed(v.without(whole, {"root", "model_responses", "selected_node_id"}), draft.notes)
    draft.meta = {"socketteer": extra} if extra else {}
    return draft


def _say_answers(answers: dict[str, Any], used: set[tuple[str, Any]], draft: Draft) -> None:
    """What the answers hold besides the tokens of nodes."""
    where, spare = "model_responses.", 0
    for name, answer in answers.items():
        one = v.maybe_table(answer)
        v.left_out(one, {"id", "model", "completions", "prompt"}, draft.notes, where)
        if v.maybe_table(one.get("prompt")).get("text"):
            v.note(draft.notes, "The prompts beside the answers were left out; the tree holds what was sent.")
        for index, made in enumerate(one["completions"] if isinstance(one.get("completions"), list) else []):
            spare += (name, index) not in used
            v.left_out(
                v.maybe_table(made), {"text", "finishReason", "tokens"}, draft.notes, f"{where}completions."
            )
            tokens = v.maybe_table(made).get("tokens")
            for token in tokens if isinstance(tokens, list) else []:
                v.left_out(v.maybe_table(token), _TOKEN, draft.notes, f"{where}completions.tokens.")
    if spare:
        draft.notes.append(f"Answers that no node was made of were left out: {spare}.")


def _answers(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {}


def _node(
    given: dict[str, Any], parent: str | None, count: int, answers: dict[str, Any], draft: Draft
) -> DraftNode:
    name = v.name(given.get("id") or f"node{count}", "A node")
    node = DraftNode(name, parent, v.text(given.get("text", ""), f"The text of node {name[:40]}"))
    meta = v.maybe_table(given.get("meta"))
    if node.text == _PLACEHOLDER and given.get("mutable") is False:
        node.text, node.generated = "", True
        draft.notes.append(f"Node {name[:40]} was still being generated when it was saved; it is empty.")
    node.generated = node.generated or meta.get("source") == "AI" or isinstance(given.get("generation"), dict)
    v.left_out(v.maybe_table(given.get("generation")), {"id", "index"}, draft.notes, "generation.")
    _tokens(node, given, meta, answers)
    tags = [tag for tag in v.listed(given.get("tags"), "tags") if isinstance(tag, str)]
    marks = {
        "tags": [tag for tag in tags if tag != "bookmark"],
        "bookmark": given.get("bookmark") is True or "bookmark" in tags,
        "note": "\n".join(one for one in v.listed(given.get("notes"), "notes") if isinstance(one, str)),
        "folded": given.get("open") is False,
        "unread": given.get("visited") is False and node.generated,
    }
    for field in ("tags", "notes"):
        if any(not isinstance(one, str) for one in v.listed(given.get(field), field)):
            v.note(draft.notes, f"Some {field} are no texts and were left out.")
    extra = v.scrubbed(v.without(given, _KNOWN), draft.notes)
    marks["meta"] = {"socketteer": extra} if extra else None
    node.marks = {key: value for key, value in marks.items() if value}
    return node


def _tokens(node: DraftNode, given: dict[str, Any], meta: dict[str, Any], answers: dict[str, Any]) -> None:
    generation = given.get("generation")
    if isinstance(generation, dict):
        answer = answers.get(str(generation.get("id")))
        index = generation.get("index")
        made = answer.get("completions") if isinstance(answer, dict) else None
        if isinstance(answer, dict):
            node.model = v.maybe_text(answer.get("model"))
        if (
            isinstance(made, list)
            and isinstance(index, int)
            and 0 <= index < len(made)
            and isinstance(made[index], dict)
        ):
            _response_tokens(node, made[index])
    old = meta.get("generation")
    kept = old.get("logprobs") if isinstance(old, dict) else None
    if isinstance(kept, dict) and not node.tokens:
        node.generated = True
        tokens = kept.get("tokens")
        if isinstance(tokens, list) and all(isinstance(one, str) for one in tokens):
            node.tokens = list(tokens)
            node.logprobs = [logprob(one) for one in _padded(kept.get("token_logprobs"), len(tokens))]
            node.top = [_top(one) for one in _padded(kept.get("top_logprobs"), len(tokens))]


def _response_tokens(node: DraftNode, made: dict[str, Any]) -> None:
    reason = made.get("finishReason")
    node.finish = v.maybe_text(reason.get("reason") if isinstance(reason, dict) else reason)
    for one in v.listed(made.get("tokens"), f"The tokens of node {node.id[:40]}"):
        token = one.get("generatedToken") if isinstance(one, dict) else None
        if not isinstance(token, dict) or not isinstance(token.get("token"), str):
            raise InvalidRequest(
                f"A token of node {node.id[:40]} has no text: the file must give each a text."
            )
        node.tokens.append(token["token"])
        node.logprobs.append(logprob(token.get("logprob")))
        top = _top(one.get("counterfactuals"))
        known = node.logprobs[-1]
        node.top.append({token["token"]: known, **top} if top is not None and known is not None else top)


def _top(given: Any) -> dict[str, float] | None:
    if not isinstance(given, dict):
        return None
    return {key: value for key, one in given.items() if (value := logprob(one)) is not None}


def _padded(given: Any, count: int) -> list[Any]:
    found = given if isinstance(given, list) else []
    return [*found, *[None] * count][:count]


def write(draft: Draft) -> bytes:
    """The full shape, answers in the file. Raises ``InvalidRequest`` for a tree that their own program cannot read."""
    if not draft.nodes:
        raise InvalidRequest("There is no node to write.")
    made: dict[str, dict[str, Any]] = {}
    depth: dict[str, int] = {}
    answers: dict[str, Any] = {}
    roots: list[dict[str, Any]] = []
    for node in draft.ordered():
        depth[node.id] = 0 if node.parent is None else depth[node.parent] + 1
        if depth[node.id] > _MOST_DEEP:
            raise InvalidRequest(
                f"The tree is more than {_MOST_DEEP} deep, which nested JSON cannot hold; use jsonl."
            )
        made[node.id] = _written(node, draft.extra(node, "socketteer"), answers)
        (roots if node.parent is None else made[node.parent]["children"]).append(made[node.id])
    root = roots[0]
    if len(roots) > 1:
        name = "roots"
        while name in draft.nodes:
            name += "+"
        root = {"id": name, "text": "", "children": roots}
        draft.notes.append("Several roots hang below an empty one: this format has one root.")
    extra = draft.extra(None, "socketteer")
    draft.say_lost({"tags", "notes", "bookmarks", "tokens", "models", "finish reasons"})
    return msgspec.json.encode(
        {**extra, "root": root, "model_responses": answers, "selected_node_id": draft.current}
    )


def _written(node: DraftNode, extra: dict[str, Any], answers: dict[str, Any]) -> dict[str, Any]:
    marks = node.marks
    source = {"source": "AI" if node.generated else "prompt"}
    one = {
        **extra,
        "id": node.id,
        "text": node.text,
        "meta": {**source, **_about(extra.get("meta"))},
        "children": [],
    }
    if node.parent is not None:
        one["parent_id"] = node.parent
    tags = [*marks.get("tags", ()), *(["bookmark"] if marks.get("bookmark") else [])]
    told = {"tags": tags, "notes": [marks["note"]] if marks.get("note") else []}
    one |= {key: value for key, value in told.items() if value}
    one |= {"open": not marks.get("folded", False), "visited": not marks.get("unread", False)}
    if node.generated:
        answers[node.id] = _answer(node)
        one["generation"] = {"id": node.id, "index": 0}
    return one


def _about(given: Any) -> dict[str, Any]:
    return given if isinstance(given, dict) else {} if given is None else {"meta": given}


def _answer(node: DraftNode) -> dict[str, Any]:
    tokens, end = [], 0
    for token, value, top in zip(node.tokens, node.logprobs, node.top, strict=True):
        end += len(token)
        kept = {"token": token, "logprob": value}
        tokens.append({"generatedToken": kept, "position": end, "counterfactuals": top})
    made = {"text": node.text, "finishReason": node.finish, "tokens": tokens}
    return {"id": node.id, "model": node.model, "prompt": {"text": "", "tokens": None}, "completions": [made]}
