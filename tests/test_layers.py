"""The house's rooms and the doors between them: who may import whom, read from the code itself."""

import ast
import sys
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parent.parent / "acs_jupyter"
MODULES = sorted(p.relative_to(PACKAGE).as_posix() for p in PACKAGE.rglob("*.py"))

# Floors, from the ground up: a room imports only from floors below its own (or, within a folder, as allowed).
FLOORS = [
    {"errors.base", "commands.parsing", "commands.budget_options"},
    {"errors.refusals", "errors.breakdowns"},
    {
        "_version",
        "errors",
        "wire",
        "sse",
        "keeping.varints",
        "secret",
        "machine.processes",
        "scores.digits",
        "scores.room",
        "machine.transactions",
        "machine.forking",
        "machine.patience",
        "machine.interrupts",
        "machine.ending",
        "machine.whole_file",
        "resending",
    },
    {
        "keeping.copying",
        "keeping.late",
        "machine.folder",
        "machine.background",
        "parting",
        "plain",
        "amounts",
        "misnamed",
        "answer_form",
        "metering",
        "scores.vocabulary",
        "comparing.lanes",
    },
    {
        "checks",
        "catalogue",
        "failures",
        "log.events",
        "log.intents",
        "notebook.template",
        "notebook.boundary",
        "notebook.body",
        "notebook.telling",
        "notebook.examples",
        "notebook.topics_keeping",
        "scores.matrix_reader",
        "scores.distribution",
    },
    {"log.tree", "log.ranking", "lenient", "settings", "retrying"},
    {"log.arrangement"},
    {"log.session", "notebook.options", "reader", "jobs.terms", "keeping.columns", "keeping.likeness"},
    {"jobs.entry", "transport", "jobs.rounds", "overhearing", "notebook.defaults", "notebook.traits"},
    {"jobs.journal", "log.standing"},
    {"jobs.notes"},
    {"log.branching", "token_ids", "log.revising", "comparing.marks"},
    {"ledger.place", "ledger.terms"},
    {"ledger.store", "ledger.refusal"},
    {"ledger.rows", "ledger.scope", "ledger.late"},
    {"ledger.again", "ledger.accounts"},
    {"ledger.book"},
    {"spending"},
    {"ledger.returning"},
    {"ledger.meter", "ledger.report", "ledger.resolve"},
    {"ledger.words"},
    {
        "widgets.inbox",
        "widgets.packing",
        "widgets.outward",
        "widgets.reading",
        "widgets.words",
        "keeping.showing",
        "widgets.bundle",
        "widgets.filling",
    },
    {"widgets.tinted", "widgets.roads", "widgets.measures", "widgets.outline"},
    {"widgets.branch_static"},
    {
        "notebook.form",
        "exchange",
        "completion",
        "frames",
        "widgets.feed",
        "widgets.snapshot",
        "machine.local_process",
    },
    {"scores.values", "notebook.continuing", "costs", "scores.calibrating"},
    {"scores.inspected", "scores.differences", "scores.windows", "scores.plots", "scores.fitting"},
    {"widgets.score_static"},
    {"widgets.difference"},
    {
        "keeping.unsaved",
        "scores.steps",
        "connection",
        "streams",
        "keeping.record",
        "keeping.strip",
        "jobs.flow",
        "jobs.record",
        "widgets.base",
    },
    {"widgets.budget", "keeping.copies"},
    {"ledger.view"},
    {"jobs.holds"},
    {"jobs.booking"},
    {"jobs.calls", "widgets.job_table", "jobs.handle"},
    {"scores.seams"},
    {
        "client",
        "widgets.live",
        "widgets.compare",
        "widgets.workbench",
        "widgets.inspector",
        "widgets.loom",
    },
    {
        "pump",
        "replay",
        "jobs.watch",
        "widgets.jobs",
        "scores.scoring",
        "scores.exact_ids",
        "ledger.command",
    },
    {"notebook.growing", "scores.whole", "scores.surgery"},
    {"scores.inspector"},
    {
        "rollouts.answer",
        "rollouts.plan",
        "rollouts.items",
        "rollouts.lock",
        "rollouts.progress",
        "rollouts.opening",
        "rollouts.flow",
        "rollouts.packed",
        "rollouts.parquet",
        "rollouts.stalls",
    },
    {"looms.storing", "looms.formats.credentials"},
    {"looms.measure", "looms.scorers", "looms.file", "looms.sampling", "looms.units", "looms.measure_frames"},
    {"looms.multiverse", "looms.progress"},
    {"looms.trie", "looms.diff", "looms.mapping", "looms.expanding"},
    {"looms.query", "looms.growing", "looms.clients"},
    {"looms.frames", "looms.formats.draft", "looms.formats.values"},
    {
        f"looms.formats.{form}"
        for form in ("basemode", "mikupad", "obsidian", "plain", "service", "socketteer")
    },
    {"looms.formats.basemode_db"},
    {"looms.formats.choosing"},
    {"looms.reading", "looms.selection", "looms.loading", "looms.keys"},
    {"looms.changing"},
    {"looms.measuring"},
    {"looms.loom"},
    {"rollouts.filling", "rollouts.line", "rollouts.gathered", "rollouts.sender"},
    {"rollouts.journal", "rollouts.cache", "rollouts.lines", "rollouts.outcomes"},
    {"rollouts.feed", "rollouts.results"},
    {"rollouts.dispatch", "rollouts.served", "rollouts.holds"},
    {"rollouts.driver"},
    {"keeping.export", "doctor.findings", "doctor.kept"},
    {"notebook.topics"},
    {"doctor.server", "doctor.surroundings"},
    {"doctor.report"},
    {"rollouts.handle"},
    {"rollouts.run"},
    {"scores.documents"},
    {"notebook.root"},
    {"comparing.editing", "widgets.lanes"},
    {"comparing.rounds"},
    {"notebook.display", "jobs.command", "notebook.workbench", "notebook.choosing"},
    {"jobs.display", "comparing.compare", "keeping.recovering", "widgets.loom_static"},
    {"looms.saying"},
    {"looms.copies", "looms.surveying"},
    {"looms.desk"},
    {"jobs.board", "jobs.cell"},
    {"notebook.magics"},
    {"commands.serving", "commands.keys", "commands.jobs", "commands.files", "commands.asking"},
]
PURE = {
    "wire",
    "errors",
    "checks",
    "failures",
    "sse",
    "log.events",
    "log.intents",
    "log.session",
    "log.arrangement",
    "log.revising",
    "log.standing",
    "looms.loom",
    "looms.formats.basemode",
    "looms.formats.choosing",
    "looms.formats.credentials",
    "looms.formats.draft",
    "looms.formats.mikupad",
    "looms.formats.obsidian",
    "looms.formats.plain",
    "looms.formats.service",
    "looms.formats.socketteer",
    "looms.formats.values",
    "looms.file",
    "looms.growing",
    "looms.reading",
    "looms.changing",
    "looms.selection",
    "looms.measure",
    "looms.measuring",
    "looms.sampling",
    "looms.units",
    "looms.multiverse",
    "looms.mapping",
    "looms.expanding",
    "looms.scorers",
    "looms.keys",
    "looms.trie",
    "looms.diff",
    "looms.query",
    "log.branching",
    "token_ids",
    "exchange",
    "overhearing",
    "answer_form",
    "plain",
    "lenient",
    "retrying",
    "completion",
    "comparing.marks",
    "jobs.flow",
    "jobs.record",
    "jobs.terms",
    "rollouts.answer",
    "rollouts.plan",
    "rollouts.items",
    "rollouts.flow",
    "rollouts.packed",
    "rollouts.outcomes",
    "rollouts.served",
    "jobs.entry",
    "jobs.rounds",
}
FOREIGN_TO_PURE = {
    "httpx",
    "IPython",
    "anywidget",
    "ipywidgets",
    "pandas",
    "traitlets",
    "starlette",
    "sqlite3",
}
# Doors opened only when someone walks through them: a function's own import of a room above, with its reason in code.
LATE = {
    ("scores.differences", "widgets.difference"),
    ("scores.values", "scores.plots"),
    ("scores.values", "widgets.score_static"),
    ("scores.distribution", "scores.plots"),
    ("scores.calibrating", "scores.plots"),
    ("scores.scoring", "scores.documents"),
    ("scores.surgery", "scores.documents"),
    ("completion", "scores.exact_ids"),
    ("completion", "frames"),
    ("completion", "replay"),
    ("completion", "widgets.snapshot"),
    ("looms.loom", "looms.desk"),
    ("looms.trie", "widgets.measures"),
    ("looms.diff", "widgets.measures"),
    ("looms.multiverse", "widgets.measures"),
}


def imports(path: Path, *, top_only: bool = False) -> set[str]:
    """Names of the modules a file imports; relative ones come back as ``.name``."""
    found: set[str] = set()
    package = path.relative_to(PACKAGE).parent.parts
    tree = ast.parse(path.read_text(encoding="utf-8"))
    typing_only = {
        node
        for block in ast.walk(tree)
        if isinstance(block, ast.If) and "TYPE_CHECKING" in ast.unparse(block.test)
        for node in ast.walk(block)
    }
    for node in ast.walk(tree):
        if node in typing_only:
            continue
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            found.add(node.module or "")
        elif isinstance(node, ast.ImportFrom):
            base = package[: len(package) - (node.level - 1)]
            stem = ".".join([*base, *((node.module or "").split(".") if node.module else [])])
            names = [stem] if node.module else [".".join([*base, a.name]) for a in node.names]
            folder = PACKAGE / stem.replace(".", "/")
            if (
                node.module
                and folder.is_dir()
                and any((folder / f"{a.name}.py").is_file() for a in node.names)
            ):
                names = [f"{stem}.{a.name}" for a in node.names]
            found |= {f".{name}" for name in names}
    return found


def room(module: str) -> str:
    return module.removesuffix(".py").replace("/", ".")


def test_every_module_says_what_it_owns() -> None:
    silent = []
    for module in MODULES:
        doc = ast.get_docstring(ast.parse((PACKAGE / module).read_text(encoding="utf-8"))) or ""
        trivial = module in {"_version.py", "__main__.py"} or module.endswith("/__init__.py")
        if not doc or not (trivial or ("Owns" in doc and "must" in doc) or module == "__init__.py"):
            silent.append(module)
    assert silent == []


@pytest.mark.parametrize("module", [m for m in MODULES if room(m) in PURE])
def test_the_core_is_pure(module: str) -> None:
    outside = {name.split(".")[0] for name in imports(PACKAGE / module) if not name.startswith(".")}
    assert outside & FOREIGN_TO_PURE == set()


def test_rooms_import_only_from_floors_below() -> None:
    floor = {name: level for level, names in enumerate(FLOORS) for name in names}
    wrong = []
    for module in MODULES:
        name = room(module)
        if name.endswith("__init__") or name in {"__main__", "cli"} or name.startswith("local."):
            continue
        assert name in floor, f"{module} stands on no floor: give it one in FLOORS"
        for target in imports(PACKAGE / module):
            other = target[1:]
            upward = target.startswith(".") and other in floor and floor[other] >= floor[name]
            if upward and (name, other) not in LATE:
                wrong.append(f"{name} (floor {floor[name]}) imports {other} (floor {floor[other]})")
    assert wrong == []


def test_server_and_client_meet_only_in_the_vocabulary() -> None:
    meeting = {".wire", ".errors", ".checks", "._version", ".sse", ".machine.processes", ".resending"}
    for module in MODULES:
        if module.startswith("local/"):
            outward = {
                n for n in imports(PACKAGE / module) if n.startswith(".") and not n.startswith(".local")
            }
            assert outward <= meeting, module
        elif not module.startswith("commands/"):
            assert not {n for n in imports(PACKAGE / module) if n.startswith(".local.")}, module


def test_widgets_know_no_transport() -> None:
    for module in MODULES:
        if module.startswith("widgets/"):
            names = {n.split(".")[0] for n in imports(PACKAGE / module) if not n.startswith(".")}
            assert not names & {"httpx", "sqlite3", "starlette"}, module
            assert ".client" not in imports(PACKAGE / module), module


def test_importing_the_package_loads_nothing_heavy() -> None:
    import subprocess

    code = "import sys, acs_jupyter; print(*sorted(sys.modules))"
    loaded = set(
        subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True
        ).stdout.split()
    )
    assert "acs_jupyter" in loaded
    assert (
        loaded & {"httpx", "pandas", "anywidget", "IPython", "msgspec", "asyncio", "sqlite3", "ssl"} == set()
    )


def test_public_names_are_what_they_say() -> None:
    import acs_jupyter

    for name in acs_jupyter.__all__:
        assert getattr(acs_jupyter, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        acs_jupyter.nothing  # noqa: B018
