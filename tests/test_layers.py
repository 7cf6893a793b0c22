"""The layers of maxlab, as one table: what each package may import of the others.

Imports run downwards only. The table is the whole rule; a new package is added here first. Inside
of a package, modules import each other without a circle; no package uses the private names of
another, or imports by a string; and the front end's core knows no Jupyter.
"""

from __future__ import annotations

import ast
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from scripts.structure import private_names
from scripts.structure.modules import ImportGraph, imported_by_string

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "maxlab"

GROUND = frozenset(
    {
        "errors",
        "dtype",
        "config",
        "trace",
        "progress",
        "files",
        "zipped",
        "stored",
        "tabular",
        "habits",
        "markup",
        "digests",
        "collector",
    }
)
_IR = GROUND | {"ir"}
_OPSET = _IR | {"opset"}
_TOOLCHAIN = GROUND | {"toolchain"}
_DRIVER = _TOOLCHAIN | {"driver"}
_GRAPH = _OPSET | _DRIVER | {"graph", "interfaces"}
_COMPILER = _GRAPH | {"compiler"}
_ENGINE = _COMPILER | {"engine"}
_EXPERIMENTAL = _ENGINE | {"experimental"}
_NN = _EXPERIMENTAL | {"nn"}
_PIPELINES = _NN | {"pipelines"}
_ENTRYPOINTS = _PIPELINES | {"entrypoints"}
_SERVE = _ENTRYPOINTS | {"serve"}

# Package or module -> all that it may import of maxlab, itself included.
LAYERS: dict[str, frozenset[str]] = {
    "errors": GROUND,
    "dtype": GROUND,
    "config": GROUND,
    "trace": GROUND,
    "progress": GROUND,
    "files": GROUND,
    "zipped": GROUND,
    "stored": GROUND,
    "tabular": GROUND,
    "habits": GROUND,
    "markup": GROUND,
    "digests": GROUND,
    "collector": GROUND,
    "ir": _IR,
    "opset": _OPSET,
    # Below the graph, not above it: a kernel source and a device know nothing of operations.
    "toolchain": _TOOLCHAIN,
    "driver": _DRIVER,
    "interfaces": _OPSET | _DRIVER | {"interfaces"},
    "graph": _GRAPH,
    "compiler": _COMPILER,
    "engine": _ENGINE,
    "experimental": _EXPERIMENTAL,
    "nn": _NN,
    "pipelines": _PIPELINES,
    "entrypoints": _ENTRYPOINTS,
    "serve": _SERVE,
    # Workers of a cluster, each with a model.
    "dask": _ENTRYPOINTS | {"dask"},
    "torch": _NN | {"torch", "analysis", "profiler"},
    "diagnostics": _DRIVER | {"diagnostics"},
    "profiler": _DRIVER | {"diagnostics", "profiler"},
    # Readings of compiled models and their runs: everything but the notebook side may be read.
    "analysis": _NN | {"analysis", "diagnostics", "profiler"},
    # The commands; pages are written through the hook that `maxlab` sets.
    "__main__": _SERVE | {"analysis", "profiler"},
}
# Stands on top of everything; nobody imports it.
TOP = "lab"
# The front door names what a notebook needs; of `lab` it holds a lazy loader and nothing else.
FRONT = "__init__"

# What `import maxlab` must not bring in: each costs time, memory, a device or a process.
HEAVY = (
    "IPython",
    "anywidget",
    "cffi",
    "dask",
    "distributed",
    "graphviz",
    "ipykernel",
    "ipywidgets",
    "jupyterlab",
    "msgspec",
    "pycuda",
    "pynvml",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
    "zmq",
)


def modules() -> list[Path]:
    """Every Python file of maxlab, built front end aside."""
    return sorted(
        path
        for path in PACKAGE.rglob("*.py")
        if path.relative_to(PACKAGE).parts[0] not in {"labextension", "static", "_kernels"}
    )


def layer_of(path: Path) -> str:
    """The first name below ``maxlab`` in the module that ``path`` holds."""
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imports(path: Path) -> Iterator[tuple[int, str]]:
    """``(line, layer)`` for every maxlab module that ``path`` imports, at any depth of its code.

    Imports for type checkers count too: a type that a layer names is a type that it depends on.
    """
    for node in ast.walk(ast.parse(path.read_text("utf-8"), str(path))):
        if isinstance(node, ast.Import):
            for alias in node.names:
                parts = alias.name.split(".")
                if parts[0] == "maxlab":
                    yield node.lineno, parts[1] if len(parts) > 1 else FRONT
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                yield node.lineno, "relative"
                continue
            parts = (node.module or "").split(".")
            if parts[0] != "maxlab":
                continue
            if len(parts) > 1:
                yield node.lineno, parts[1]
            else:
                for alias in node.names:
                    is_module = (PACKAGE / f"{alias.name}.py").exists() or (
                        PACKAGE / alias.name
                    ).is_dir()
                    yield node.lineno, alias.name if is_module else FRONT


def violations(path: Path) -> list[str]:
    """What ``path`` imports against the table, one line for each."""
    layer = layer_of(path)
    found = []
    for line, target in imports(path):
        at = f"{path.relative_to(ROOT)}:{line}"
        if target == "relative":
            found.append(f"{at} imports relatively; write the full name")
        elif layer == FRONT:
            if target == TOP and not _is_inside_function(path, line):
                found.append(f"{at} imports {TOP} when maxlab is imported")
        elif target == TOP and layer != TOP:
            found.append(f"{at} ({layer}) imports {TOP}, which nobody may")
        elif target == FRONT and layer != TOP:
            found.append(f"{at} ({layer}) imports names from maxlab itself; import their module")
        elif layer != TOP and target not in LAYERS[layer]:
            found.append(f"{at} ({layer}) may not import {target}")
    return found


def _is_inside_function(path: Path, line: int) -> bool:
    tree = ast.parse(path.read_text("utf-8"))
    return any(
        isinstance(node, ast.FunctionDef)
        and node.lineno <= line <= (node.end_lineno or node.lineno)
        for node in ast.walk(tree)
    )


def test_every_module_stands_in_the_table() -> None:
    known = {*LAYERS, TOP, FRONT, "__main__"}
    unknown = {layer_of(path) for path in modules()} - known
    assert not unknown, f"not in LAYERS: {sorted(unknown)}"


def test_imports_run_downwards() -> None:
    found = [line for path in modules() for line in violations(path)]
    assert not found, "\n" + "\n".join(found)


def test_toolchain_and_driver_know_no_operations() -> None:
    for layer in ("toolchain", "driver"):
        assert not LAYERS[layer] & {"ir", "opset", "graph"}


def test_only_the_cuda_driver_imports_pycuda() -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in modules()
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, ast.Import | ast.ImportFrom)
        and any(
            name.split(".")[0] == "pycuda"
            for name in (
                [node.module or ""]
                if isinstance(node, ast.ImportFrom)
                else [a.name for a in node.names]
            )
        )
        and not str(path.relative_to(PACKAGE)).startswith("driver/cuda")
    ]
    assert not found


@pytest.mark.parametrize(
    ("source", "bad"),
    [
        ("import maxlab.opset.core", True),
        ("from maxlab import opset", True),
        ("from maxlab.trace import emit", False),
        ("def f() -> None:\n    from maxlab.lab import display", True),
        ("from . import cache", True),
        ("import numpy", False),
    ],
)
def test_the_walk_itself_finds_what_it_should(
    source: str, bad: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake = tmp_path / "maxlab"
    (fake / "toolchain").mkdir(parents=True)
    (fake / "opset").mkdir()
    (fake / "toolchain" / "cache.py").write_text(source)
    monkeypatch.setattr(sys.modules[__name__], "PACKAGE", fake)
    monkeypatch.setattr(sys.modules[__name__], "ROOT", tmp_path)
    assert bool(violations(fake / "toolchain" / "cache.py")) is bad


# ---------------------------------------------------------------- circles
@cache
def maxlab() -> ImportGraph:
    """The modules of maxlab, read once."""
    return ImportGraph(PACKAGE)


def circles(graph: ImportGraph) -> list[str]:
    """The import cycles of ``graph``, each with its arcs."""
    found = []
    for group in graph.cycles:
        arcs = "".join(f"\n    {arc}" for arc in graph.inside(group))
        found.append(f"{len(group)} modules import each other in a circle:{arcs}")
    return found


def test_modules_import_each_other_without_a_circle() -> None:
    found = circles(maxlab())
    assert not found, "\n" + "\n".join(found)


def test_a_circle_is_told_with_its_arcs(tmp_path: Path) -> None:
    made = made_up(tmp_path, {"a/one.py": "import maxlab.b.two", "b/two.py": BACK, "c.py": ""})
    (told,) = circles(ImportGraph(made))
    assert told.splitlines() == [
        "2 modules import each other in a circle:",
        "    maxlab.a.one:1 -> maxlab.b.two (top)",
        "    maxlab.b.two:3 -> maxlab.a.one (typing)",
    ]


BACK = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from maxlab.a.one import x"


def made_up(folder: Path, files: dict[str, str]) -> Path:
    """A package ``maxlab`` in ``folder`` with ``files``, and others that are there already."""
    for name, text in files.items():
        path = folder / "maxlab" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return folder / "maxlab"


# ---------------------------------------------------------------- imports by string
BY_NAME = {
    "maxlab": "the lazy table of the front door",
    "maxlab.graph.ops": "the lazy table of the functions",
    "maxlab.opset": "the modules that declare ops",
    "maxlab.opset.core": "the module that declares an op",
    "maxlab.pipelines": "the lazy table of the names of the package",
    "maxlab.pipelines.lib.custom_modules": "modules of architectures that a user names",
    "maxlab.toolchain.child_main": "a process makes the calls that another one names",
    "maxlab.torch": "the names of the package that need torch",
}
"""Modules that may import by a computed name, and what for."""


def imported_strings(graph: ImportGraph, allowed: dict[str, str]) -> list[str]:
    """Imports of modules of ``graph`` by a string, or by a name that is computed outside of
    ``allowed``; and the modules of ``allowed`` that compute none."""
    found, needed = [], set()
    for name, tree in graph.trees.items():
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call) or not node.args:
                continue
            called = ast.unparse(node.func).rpartition(".")[2]
            if called not in {"import_module", "__import__"}:
                continue
            module = imported_by_string(node)
            if module is None and name in allowed:
                needed.add(name)
            elif module is None:
                found.append(f"{name}:{node.lineno} imports by a name that it computes")
            elif module.split(".")[0] == graph.root:
                found.append(f"{name}:{node.lineno} imports {module} by a string")
    return found + [f"{name} imports by no name any more" for name in sorted(set(allowed) - needed)]


def test_nothing_is_imported_by_a_string() -> None:
    found = imported_strings(maxlab(), BY_NAME)
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "told"),
    [
        ("import importlib\nimportlib.import_module('maxlab.b')", "imports maxlab.b by a string"),
        ("def f():\n    return __import__('maxlab.b.two')", "imports maxlab.b.two by a string"),
        ("import_module('maxlab.' + name)", "imports by a name that it computes"),
        ("import_module('torch')", None),
        ("words = 'maxlab.b'", None),
    ],
)
def test_imports_by_strings_are_seen(source: str, told: str | None, tmp_path: Path) -> None:
    graph = ImportGraph(made_up(tmp_path, {"a.py": source}))
    found = imported_strings(graph, {})
    assert [text.partition(" ")[2] for text in found] == ([told] if told is not None else [])
    unneeded = imported_strings(graph, {"maxlab.b": "it did once"})
    assert "maxlab.b imports by no name any more" in unneeded


# ---------------------------------------------------------------- private names
FRIENDS = {
    ("maxlab.engine", "_strides"): "the dispatch of a model, which a property would slow down",
    ("maxlab.nn", "_placeholder"): "the name of Weight's argument in the API",
}
"""(package, private name of another): why it may use it."""


def private_uses(graph: ImportGraph, allowed: set[tuple[str, str]]) -> list[str]:
    """Uses of private names of other packages, and what of ``allowed`` is used no more."""
    all_uses = private_names.uses(graph)
    found = [str(use) for use in all_uses if (use.package, use.name) not in allowed]
    unneeded = allowed - {(use.package, use.name) for use in all_uses}
    return found + [f"{package} uses {name} no more" for package, name in sorted(unneeded)]


def test_packages_use_no_private_names_of_each_other() -> None:
    found = private_uses(maxlab(), set(FRIENDS))
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("from maxlab.b import _made", ["_made"]),
        ("from maxlab.b._inner import made", ["_inner"]),
        ("from maxlab.b import _inner", ["_inner"]),
        ("import maxlab.b._inner", ["_inner"]),
        ("def f(x):\n    return x._kept + x._slot + x._work()", ["_kept", "_slot", "_work"]),
        (
            "class C:\n    def __init__(self):\n        self._kept = 1\n        print(self._kept)",
            [],
        ),
        ("import torch\nprint(torch._kept)", []),
        ("from maxlab.b import made\nprint(made.__doc__, made._)", []),
    ],
)
def test_uses_of_private_names_are_seen(source: str, used: list[str], tmp_path: Path) -> None:
    files = {
        "__init__.py": "",
        "a/one.py": source,
        "b/__init__.py": "made = _made = 1",
        "b/_inner.py": "made = 1",
        "b/two.py": "class B:\n    __slots__ = '_slot',\n    def _work(self): self._kept = 1",
    }
    graph = ImportGraph(made_up(tmp_path, files))
    assert [use.name for use in private_names.uses(graph)] == used
    assert private_uses(graph, {("maxlab.a", name) for name in used}) == []
    assert private_uses(graph, {("maxlab.c", "_gone")})[-1] == "maxlab.c uses _gone no more"


# ---------------------------------------------------------------- TypeScript
SOURCES = (ROOT / "extension" / "src").resolve()
FREE_OF_JUPYTER = ("core", "proto", "export")
"""Folders of the front end that a page without Jupyter runs."""
JUPYTER = ("@jupyter", "@lumino", "react")

_IMPORT = re.compile(
    r"""(?m)^\s*(?:import|export)\b[^;'"]*?['"]([^'"]+)['"]|\bimport\(\s*['"]([^'"]+)['"]"""
)


def jupyter_imports(sources: Path) -> list[str]:
    """What the folders that are free of Jupyter import of it, or of the folders that are not."""
    found = []
    for folder in FREE_OF_JUPYTER:
        for path in sorted((sources / folder).rglob("*.ts*")):
            for match in _IMPORT.finditer(path.read_text("utf-8")):
                name = match[1] or match[2]
                bad = name.startswith(JUPYTER)
                if name.startswith("."):
                    target = (path.parent / name).resolve()
                    bad = not any(target.is_relative_to(sources / free) for free in FREE_OF_JUPYTER)
                if bad:
                    found.append(f"{path.relative_to(sources)} imports {name}")
    return found


def test_the_core_of_the_front_end_knows_no_jupyter() -> None:
    found = jupyter_imports(SOURCES)
    assert not found, "\n" + "\n".join(found)


@pytest.mark.parametrize(
    ("source", "bad"),
    [
        ("import { Widget } from '@lumino/widgets';", True),
        ("import type {\n  IRenderMime\n} from '@jupyterlab/rendermime-interfaces';", True),
        ("export * from '../lab/probe';", True),
        ("const later = () => import('@jupyterlab/services');", True),
        ("import '../../style/base.css';", True),
        ("import { a } from '../proto/document';\nimport { b } from './layout';", False),
        ("// import { Widget } from '@lumino/widgets';", False),
    ],
)
def test_imports_of_jupyter_are_seen(source: str, bad: bool, tmp_path: Path) -> None:
    (tmp_path / "src" / "core").mkdir(parents=True)
    (tmp_path / "src" / "core" / "view.ts").write_text(source)
    assert bool(jupyter_imports(tmp_path / "src")) is bad


# ---------------------------------------------------------------- a light import
_PROBE = """
import json, sys
started = []
starters = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec", "os.system"}
sys.addaudithook(lambda event, args: started.append(event) if event in starters else None)
before = set(sys.modules)
import maxlab
new = sorted(set(sys.modules) - before)
json.dump({"new": new, "started": started, "file": maxlab.__file__}, sys.stdout)
"""


def test_import_is_light() -> None:
    """``import maxlab`` brings in no heavy package and starts no process."""
    probe = subprocess.run(
        [sys.executable, "-c", _PROBE], capture_output=True, text=True, cwd=ROOT, check=True
    )
    seen = json.loads(probe.stdout)
    assert Path(seen["file"]).parent == PACKAGE
    heavy = sorted({name.split(".")[0] for name in seen["new"]} & set(HEAVY))
    assert not heavy, f"import maxlab imports {', '.join(heavy)}"
    assert seen["started"] == []
