"""A widget's script and style sheet as one short module, since every output's saved state holds a copy.

Owns that form: deflate in base85, in a module that unpacks it and puts the style sheet into the page once. It must not
know widgets. It asks of a browser what the bundles ask anyway (``DecompressionStream`` is older than popovers).
"""

from __future__ import annotations

import hashlib
import zlib
from base64 import b85encode
from pathlib import Path

_PYTHONS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
_DIGITS = str.maketrans(_PYTHONS, "".join(chr(40 + i + (i > 51)) for i in range(85)))
"""Python's digits of base85 to those from ``(`` on without the backslash: nothing to escape, and no table to send."""

_MODULE = """
let p="{packed}",b=[],i=0,n,c,s,t;
for(;i<p.length;){{for(n=0,c=5;c--;)n=n*85+(s=p.charCodeAt(i++))-40-(s>92);b.push(n>>>24,n>>16,n>>8,n)}}
[s,t]=(await new Response(new Blob([new Uint8Array(b).slice(0,{size})]).stream().pipeThrough(
new DecompressionStream("deflate-raw"))).text()).split("\0");
i="acs-style-{digest}";
document.getElementById(i)||document.head.append(Object.assign(document.createElement("style"),{{id:i,textContent:t}}));
s=URL.createObjectURL(new Blob([s],{{type:"text/javascript"}}));
const m=(await import(s)).default;URL.revokeObjectURL(s);export default m
""".strip().replace("\n", "")


def _deflated(data: bytes) -> bytes:
    packer = zlib.compressobj(9, zlib.DEFLATED, -15)
    return packer.compress(data) + packer.flush()


def pressed(script: Path, style: Path) -> str:
    """The module. Whatever made the files, the same files make the same module."""
    both = script.read_bytes() + b"\0" + style.read_bytes()
    data = _deflated(both)
    packed = b85encode(data, pad=True).decode().translate(_DIGITS)
    digest = hashlib.sha256(both).hexdigest()[:12]
    return _MODULE.format(packed=packed, size=len(data), digest=digest)
