"""What looks like a credential in the settings of a stranger's file: by a field's name, in an address, by its shape.

Owns these rules. It must not know formats nor notes. They are for settings only: the texts of a tree are data, and are
asked at most whether they hold one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

DROPPED = "[dropped]"

_NAME = re.compile(
    r"api.?key|secret|passw|passphrase|authoriz|credential|bearer|cookie|(auth|access|refresh).?token",
    re.IGNORECASE,
)
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
_WHOLE_WORDS = frozenset({"pwd", "auth"})
_LAST_WORDS = frozenset({"key", "token"})
_HARMLESS = frozenset({
    "eos", "bos", "pad", "stop", "unk", "sep", "mask", "next", "last", "first", "new", "max", "min", "per", "end",
    "start", "special", "generated", "public", "primary", "foreign", "sort", "cache", "hot", "shortcut", "top",
})  # fmt: skip
"""Before ``key`` or ``token``: what is no credential."""
_SHAPE = re.compile(
    r"\b(?:sk-|acs-bm-|hf_|gh[pousr]_|github_pat_|glpat-|xox[abp]-)[A-Za-z0-9_-]{12,}"
    r"|\bAIza[A-Za-z0-9_-]{30,}|\bAKIA[A-Z0-9]{16}\b|\beyJ[A-Za-z0-9_-]{10,999}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]*"
    r"|\bBearer\s{1,4}\S{12,}|\bBasic\s{1,4}(?=[A-Za-z+/]{0,200}[0-9=])[A-Za-z0-9+/]{11,}={0,2}"
    r"|-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----(?:[^-]{0,20000}-----END [A-Z ]{0,30}PRIVATE KEY-----|[^-]*)"
)
_USER = re.compile(r"\b([A-Za-z][A-Za-z0-9+.-]{0,20}://)[^/\s@?#]{1,1000}@")
_PAIR = re.compile(r"([?&#;])([A-Za-z][\w.-]{0,40})=([^&\s#;\"']+)")
_SET = re.compile(
    r"\b([A-Za-z][\w-]{0,40})(\\?[\"']?\s{0,4}[:=]\s{0,4}\\?[\"']?)(?=[^\s\"'&,;]{0,200}\d)([^\s\"'&,;\\]{8,})"
)
_IN_ADDRESS = frozenset({"key", "token", "sig", "signature", "code", "access"})


def named(name: str) -> bool:
    """Whether a field of that name holds a credential, whatever stands there."""
    words = [word.lower() for word in _WORD.findall(name)]
    last = len(words) > 1 and words[-1] in _LAST_WORDS and words[-2] not in _HARMLESS
    return bool(_NAME.search(name)) or last or not _WHOLE_WORDS.isdisjoint(words)


def held(name: str, value: Any) -> bool:
    """Whether a field holds a credential: its name says so, or it is ``key`` or ``token`` and its value may be one."""
    if value in (None, "") or isinstance(value, (bool, int, float)):
        return False
    if named(name):
        return True
    bare = name.strip(" _-").lower() in _LAST_WORDS
    return (
        bare and isinstance(value, str) and len(value) >= 8 and re.fullmatch(r"\S*\d\S*", value) is not None
    )


def shaped(text: str) -> bool:
    """Whether a text holds something of the shape of a well-known kind of key."""
    return _SHAPE.search(text) is not None


def without(text: str) -> str:
    """A setting's text without keys, without who logs in to an address, and without what is set to a secret."""
    text = _SHAPE.sub(DROPPED, text)
    text = _USER.sub(rf"\1{DROPPED}@", text) if "://" in text else text
    text = _PAIR.sub(_unless(_harmless_pair), text) if "=" in text else text
    return _SET.sub(_unless(lambda name: not named(name)), text)


def _harmless_pair(name: str) -> bool:
    return not named(name) and name.lower() not in _IN_ADDRESS


def _unless(harmless: Callable[[str], bool]) -> Callable[[re.Match[str]], str]:
    def put(match: re.Match[str]) -> str:
        names = [group for group in match.groups()[:2] if group[:1].isalpha()]
        if harmless(names[0]) or DROPPED in match[3]:
            return match[0]
        return match[0].removesuffix(match[3]) + DROPPED

    return put


__all__ = ["DROPPED", "held", "named", "shaped", "without"]
