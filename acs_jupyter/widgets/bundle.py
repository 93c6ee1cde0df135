"""A widget's script and style sheet as one short module, since every output's saved state holds a copy.

Owns that form: gzip in base85, in a module that unpacks it and puts the style sheet into the page once. It must not
know widgets. It asks of a browser what the bundles ask anyway (``DecompressionStream`` is older than popovers).
"""

from __future__ import annotations

import gzip
import hashlib
from base64 import b85encode
from pathlib import Path

_DIGITS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%&()*+-;<=>?@^_`{|}~"
"""The digits of Python's base85, none of which a string in JSON or in a script has to escape."""

_MODULE = """
const digits = "{digits}", packed = "{packed}", bytes = [];
for (let i = 0; i < packed.length; i += 5) {{
  let n = 0;
  for (let j = 0; j < 5; j++) n = n * 85 + digits.indexOf(packed[i + j]);
  bytes.push(n / 2 ** 24, n / 2 ** 16, n / 256, n);
}}
const whole = new Uint8Array(bytes.slice(0, {size}).map(n => n & 255));
const stream = new Blob([whole]).stream().pipeThrough(new DecompressionStream("gzip"));
const [script, textContent] = (await new Response(stream).text()).split("\\0");
const id = "acs-style-{digest}";
const style = Object.assign(document.createElement("style"), {{ id, textContent }});
if (!document.getElementById(id)) document.head.append(style);
const url = URL.createObjectURL(new Blob([script], {{ type: "text/javascript" }}));
const {{ default: made }} = await import(url);
URL.revokeObjectURL(url);
export default made;
""".strip()


def pressed(script: Path, style: Path) -> str:
    """The module. Whatever made the files, the same files make the same module."""
    both = script.read_bytes() + b"\0" + style.read_bytes()
    data = gzip.compress(both, 9, mtime=0)
    packed = b85encode(data, pad=True).decode()
    digest = hashlib.sha256(both).hexdigest()[:12]
    return _MODULE.format(digits=_DIGITS, packed=packed, size=len(data), digest=digest)
