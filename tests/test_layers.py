"""The layers of maxlab, as one table: what each package may import of the others.

Imports run downwards only. The table is the whole rule; a new package is added here first.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "maxlab"

GROUND = frozenset({"errors", "dtype", "config", "trace", "files", "zipped"})
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

# Package or module -> all that it may import of maxlab, itself included.
LAYERS: dict[str, frozenset[str]] = {
    "errors": GROUND,
    "dtype": GROUND,
    "config": GROUND,
    "trace": GROUND,
    "files": GROUND,
    "zipped": GROUND,
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
    "torch": _NN | {"torch", "analysis", "profiler"},
    "diagnostics": _DRIVER | {"diagnostics"},
    "profiler": _DRIVER | {"diagnostics", "profiler"},
    # Readings of compiled models and their runs: everything but the notebook side may be read.
    "analysis": _NN | {"analysis", "diagnostics", "profiler"},
    # The commands; pages are written through the hook that `maxlab` sets.
    "__main__": _NN | {"analysis", "profiler"},
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
    "graphviz",
    "ipykernel",
    "ipywidgets",
    "jupyterlab",
    "pycuda",
    "pynvml",
    "safetensors",
    "tokenizers",
    "torch",
    "transformers",
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
