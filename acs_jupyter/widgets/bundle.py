"""A widget's script and style sheet as one short module, since every output's saved state holds a copy.

Owns that form: gzip in base64, in a module that unpacks it and puts the style sheet into the page once. It must not
know widgets. It asks of a browser what the bundles ask anyway (``DecompressionStream`` is older than popovers).
"""

from __future__ import annotations

import gzip
import hashlib
from base64 import b64encode
from pathlib import Path

_MODULE = """
const bytes = Uint8Array.from(atob("{packed}"), c => c.charCodeAt(0));
const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
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
    packed = b64encode(gzip.compress(both, 9, mtime=0)).decode()
    return _MODULE.format(packed=packed, digest=hashlib.sha256(both).hexdigest()[:12])
