"""The notebooks that come with the package, as somebody's own: copied, told which kernel they meet, and signed.

Owns the copies. It must not know servers, nor what the notebooks say.
"""

from __future__ import annotations

import json
import sys
from contextlib import suppress
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from importlib.resources.abc import Traversable

FIRST = "01-first-completion.ipynb"


def work_notebooks(folder: Path) -> Path:
    """The notebooks in ``folder``; gives the first. A file that is already there is the user's and stays."""
    folder.mkdir(exist_ok=True)
    for source in _notebooks():
        try:
            with (folder / source.name).open("x", encoding="utf-8") as file:
                file.write(text := fitted(source.read_text(encoding="utf-8")))
        except FileExistsError:
            continue
        _trust(text)
    return folder / FIRST


def settle(paths: Iterable[Path]) -> None:
    """Do the same to notebooks where they stand, as an image does that is built for others."""
    for path in paths:
        path.write_text(text := fitted(path.read_text(encoding="utf-8")), encoding="utf-8")
        _trust(text)


def fitted(text: str) -> str:
    """A notebook that names the kernel it will meet here.

    JupyterLab writes kernel and language into a notebook as soon as it has a kernel. Where they differ, by the minor
    version of Python at least, a notebook that was only opened counts as changed, and closing it asks about saving.
    """
    book: dict[str, Any] = json.loads(text)
    with suppress(ImportError):
        book["metadata"] |= _kernel()
    return json.dumps(book, ensure_ascii=False, indent=1) + "\n"


def _kernel() -> dict[str, Any]:
    from ipykernel.ipkernel import IPythonKernel
    from jupyter_client.kernelspec import KernelSpecManager, NoSuchKernel

    told: dict[str, Any] = {"language_info": dict(IPythonKernel.language_info)}
    with suppress(NoSuchKernel):
        spec = KernelSpecManager().get_kernel_spec("python3")
        told["kernelspec"] = {"display_name": spec.display_name, "language": spec.language, "name": "python3"}
    return told


def _trust(text: str) -> None:
    """Sign a notebook of ours, as ``jupyter trust`` would: its outputs then show with their colours at once."""
    from nbformat import reads
    from nbformat.sign import NotebookNotary

    with suppress(OSError):  # a folder that cannot be written: the outputs are shown without colours
        NotebookNotary().sign(reads(text, as_version=4))


def _notebooks() -> list[Traversable]:
    packaged = resources.files("acs_jupyter").joinpath("notebooks")
    folder = packaged if packaged.is_dir() else Path(__file__).parents[2] / "notebooks"
    found = [file for file in folder.iterdir() if file.name.endswith(".ipynb")]
    return sorted(found, key=lambda file: file.name)


if __name__ == "__main__":
    settle(map(Path, sys.argv[1:]))
