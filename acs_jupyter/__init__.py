"""Work with base language models in notebooks."""

from ._version import __version__

__all__ = ["__version__"]
