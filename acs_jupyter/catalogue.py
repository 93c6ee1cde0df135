"""What a client knows of its server's models: the list, their limits and names, and which one answers by default.

Owns what was learned, and one list a server for all clients of a process. It asks nobody: clients tell it what they
read. It must not know httpx, the ledger or who asks.
"""

from __future__ import annotations

from . import wire
from .wire import Capabilities, Model

_listed: dict[str, list[Model]] = {}
"""What each server has listed last, to any client of this process: one name of a model in all books."""


class Catalogue:
    """The models of one server, as one client has learned of them."""

    def __init__(self, base_url: str) -> None:
        self._base_url = base_url
        self.models: list[Model] | None = None
        """As listed; ``None`` before the server was asked."""
        self.default: str | None = None
        """The id that requests without a model name."""
        self.learned = False
        """Whether the default was asked for, told or not."""

    def keep(self, models: list[Model]) -> list[Model]:
        """The list a server gave."""
        self.models = _listed[self._base_url] = models
        return models

    def learn(self, models: list[Model]) -> None:
        """Requests that name no model name the server's default from here on."""
        self.default = wire.default_of(models)
        self.learned = True

    def adopt(self, other: Catalogue) -> None:
        """The default that another client of the same server has learned."""
        self.default, self.learned = other.default, other.learned

    def limits_of(self, model: object) -> Capabilities | None:
        """The limits of a model, of the default one for none; ``None`` where they are not known."""
        for known in self.models or ():
            if known.id == model or (not model and known.default):
                return known.capabilities
        return None

    def name_of(self, answered: str | None) -> str | None:
        """The id of a model that is known by the name its server uses, else that name."""
        for known in self.models or _listed.get(self._base_url) or ():
            if answered and answered in (known.id, known.served_model_name):
                return known.id
        return answered
