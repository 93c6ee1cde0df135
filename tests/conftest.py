"""Servers shared by all tests: one scripted, one with the small model. Each has ``.base`` and ``.key``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import settings

from tests.support.clients import api, streamed  # noqa: F401  # fixtures
from tests.support.servers import Running, serving
from tests.support.shells import connect, shell  # noqa: F401  # fixtures

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


settings.register_profile("unhurried", deadline=None)  # a machine of two cores does other things too
settings.load_profile("unhurried")

UNHURRIED = ("--starts", "0", "--reads", "0")
"""All tests together start more than one key may."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With several workers a file stays together, and so do all browser tests: one browser at a time is enough."""
    from xdist.scheduler import LoadScopeScheduling  # only with workers

    class Files(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = nodeid.partition("::")[0]
            return "browser" if "browser/" in file else file

    return Files(config, log)


@pytest.fixture(scope="session", autouse=True)
def data_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Servers started by tests keep their keys away from the user's, clients their journal."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("data")
        patch.setenv("ACS_LOCAL_DATA", str(folder / "acs"))
        patch.setenv("ACS_JOURNAL", str(folder / "jobs.sqlite3"))
        patch.setenv("ACS_UNSAVED", str(folder / "unsaved"))
        yield


@pytest.fixture(scope="session", autouse=True)
def shared_ledger(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What longer-lived fixtures start keeps its budget away from the user's too."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ACS_LEDGER", str(tmp_path_factory.mktemp("ledger") / "ledger.sqlite3"))
        yield


@pytest.fixture(autouse=True)
def own_ledger(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Each test has a budget ledger of its own."""
    from acs_jupyter import ledger

    monkeypatch.setenv("ACS_LEDGER", str(tmp_path / "ledger" / "ledger.sqlite3"))
    yield tmp_path / "ledger" / "ledger.sqlite3"
    ledger.close()


@pytest.fixture(scope="session")
def scripted_server() -> Iterator[Running]:
    with serving("--scripted", *UNHURRIED) as running:
        yield running


@pytest.fixture(scope="session")
def smollm_server() -> Iterator[Running]:
    with serving(*UNHURRIED) as running:
        yield running
