"""Arrays that grow to a length nobody knows beforehand, in no more memory than they fill.

Owns how they are asked for. It must not know what stands in them.

Large arrays have pages of their own: what was never written takes no memory, and they are cut or lengthened where they
lie. Small ones come from a heap, where each that grows leaves a hole of its old size. From 4 MB on numpy asks for pages
of 2 MB each, which is too much for a few rows; so there is room for a little less.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

_A = TypeVar("_A", bound="NDArray[Any]")
_APART = (4 << 20) - 65_536
"""Bytes."""


def roomy(kind: Any) -> NDArray[Any]:
    """An array with room for many, none of them written yet."""
    return np.empty(_APART // np.dtype(kind).itemsize, kind)


def with_room(array: _A, length: int) -> _A:
    """The same array, longer if it must be; what is new is not to be read before it is written."""
    if length > len(array):
        array.resize(length + length // 16, refcheck=False)
    return array


def cut(array: _A, length: int) -> _A:
    """The same array, of that length."""
    array.resize(length, refcheck=False)
    return array
