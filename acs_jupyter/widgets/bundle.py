"""A widget's script and style sheet as one short module, since every output's saved state holds a copy.

Owns that form: deflate in 91 characters, in a module that unpacks it and puts the style sheet into the page once. It
must not know widgets. It asks of a browser what the bundles ask (``DecompressionStream`` is older than popovers).
"""

from __future__ import annotations

import hashlib
import zlib
from pathlib import Path

_MODULE = """
let p="{packed}",b=[],i=0,n=0,k=0,s,t,d=()=>(s=p.charCodeAt(i++))-35-(s>92);
for(;i<p.length;)for(n|=(d()*91+d())<<k,k+=13;k>7;k-=8,n>>=8)b.push(n&255);
[s,t]=(await new Response(new Blob([new Uint8Array(b).slice(0,{size})]).stream().pipeThrough(
new DecompressionStream("deflate-raw"))).text()).split("\0");
i="acs-style-{digest}";
n=document;n.getElementById(i)||n.head.append(Object.assign(n.createElement("style"),{{id:i,textContent:t}}));
s=URL.createObjectURL(new Blob([s],{{type:"text/javascript"}}));
const m=(await import(s)).default;URL.revokeObjectURL(s);export default m
""".strip().replace("\n", "")

_DIGITS = [chr(35 + i + (i > 56)) for i in range(91)]
_PAIRS = [high + low for high in _DIGITS for low in _DIGITS]


def _in_pairs(data: bytes) -> str:
    """Thirteen bits, the lowest first, in each two characters from ``#`` on: no quote, no backslash, no table to send.

    13 bits in two of 91 characters take 23 % more than the bytes do, four bytes in five of 85 take 25 %.
    """
    whole, count = int.from_bytes(data, "little"), (8 * len(data) + 12) // 13
    bits = format(whole, f"0{13 * count}b")
    return "".join(_PAIRS[int(bits[13 * i : 13 * i + 13], 2)] for i in reversed(range(count)))


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def pressed(script: Path, style: Path) -> str:
    """The module. Whatever made the files, the same files make the same module."""
    both = script.read_bytes() + b"\0" + style.read_bytes()
    data = _deflated(both)
    digest = hashlib.sha256(both).hexdigest()[:12]
    return _MODULE.format(packed=_in_pairs(data), size=len(data), digest=digest)
