"""The counters of ``scripts/structure``, on made-up sources whose numbers are known."""

from __future__ import annotations

import functools
import shutil
from pathlib import Path
from textwrap import dedent

import pytest

from maxlab.compiler.plan import Plan, Slot
from maxlab.dtype import DType
from maxlab.ir.poly import ONE
from scripts.structure import (
    c_texts,
    device_kinds,
    engine_names,
    observers,
    op_names,
    plans,
    size,
    typescript,
    words,
)
from scripts.structure.__main__ import compared
from scripts.structure.modules import Arc, ImportGraph

ROOT = Path(__file__).resolve().parents[1]
MODULES = ROOT / "extension" / "node_modules"


def tree(folder: Path, files: dict[str, str]) -> Path:
    """A package ``fake`` in ``folder`` with ``files``."""
    for name, text in {"__init__.py": "", **files}.items():
        path = folder / "fake" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text))
    return folder / "fake"


# ---------------------------------------------------------------- cycles
@pytest.mark.parametrize(
    ("back", "kind"),
    [
        ("from fake.a import x", "top"),
        ("from fake import a", "top"),
        ("def f():\n    import fake.a", "lazy"),
        ("from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from fake.a import x", "typing"),
        ("import importlib\ndef f():\n    importlib.import_module('fake.a')", "string"),
    ],
)
def test_every_kind_of_import_closes_a_cycle(tmp_path: Path, back: str, kind: str) -> None:
    graph = ImportGraph(tree(tmp_path, {"a.py": "import fake.b\nx = 1", "b.py": back}))
    assert graph.cycles == [["fake.a", "fake.b"]]
    forth, closing = graph.inside(graph.cycles[0])
    assert forth == Arc("fake.a", "fake.b", 1, "top")
    assert (closing.source, closing.target, closing.kind) == ("fake.b", "fake.a", kind)


def test_fronts_and_the_lazy_table_close_none(tmp_path: Path) -> None:
    files = {
        "__init__.py": "def f():\n    from fake.part import a",
        "part/__init__.py": "from fake.part.a import x",
        "part/a.py": "from fake import __version__\nfrom fake.part.b import y",
        "part/b.py": "y = 1",
    }
    graph = ImportGraph(tree(tmp_path, files))
    assert graph.cycles == []
    assert Arc("fake.part", "fake.part.a", 1, "top") in graph.arcs


def test_a_front_that_its_own_module_asks_is_a_cycle(tmp_path: Path) -> None:
    files = {
        "part/__init__.py": "from fake.part.a import x",
        "part/a.py": "from fake.part import x",
    }
    assert ImportGraph(tree(tmp_path, files)).cycles == [["fake.part", "fake.part.a"]]


def test_two_rings_that_touch_are_one_cycle_and_strangers_are_two(tmp_path: Path) -> None:
    ring = {"a.py": "import fake.b, fake.c", "b.py": "import fake.a", "c.py": "import fake.a"}
    other = {"d.py": "import fake.e, fake.a", "e.py": "import fake.d"}
    found = ImportGraph(tree(tmp_path, ring | other)).cycles
    assert found == [["fake.a", "fake.b", "fake.c"], ["fake.d", "fake.e"]]


# ---------------------------------------------------------------- names of ops
ROWS = {"mo.add", "mo.bind", "mo.relu"}


@pytest.mark.parametrize(
    ("source", "ops"),
    [
        ("x = op.name == 'mo.add' or op.name in ('mo.add', 'mo.relu')", {"mo.add", "mo.relu"}),
        ("from fake.opset.rows import BIND\nx = op.name == BIND", {"mo.bind"}),
        ("from fake.opset import BIND\nx = op.name == BIND", {"mo.bind"}),
        ("from fake.opset import BIND", set()),
        ("from fake.opset import rows\nx = op.name == rows.BIND", {"mo.bind"}),
        ("import fake.opset.rows as rows\nx = op.name == rows.BIND", {"mo.bind"}),
        ("from fake.opset.rows import RELU\nx = op.row is RELU", {"mo.relu"}),
        ("from fake.opset.rows import BOTH\nx = op.name in BOTH", set()),
        ("'''Says mo.add.'''\nx = attrs['mo.scope'], row('add')", set()),
    ],
)
def test_names_of_ops_are_found(tmp_path: Path, source: str, ops: set[str]) -> None:
    rows = "BIND = 'mo.bind'\nRELU = define('relu')\nBOTH = {'mo.add', 'mo.relu'}"
    files = {"opset/__init__.py": "from fake.opset.rows import BIND", "opset/rows.py": rows}
    graph = ImportGraph(tree(tmp_path, {**files, "user.py": source}))
    assert {pair[1] for pair in op_names.pairs(graph, ROWS)} == ops
    assert {pair[0] for pair in op_names.pairs(graph, ROWS)} <= {"user.py"}


# ---------------------------------------------------------------- the engine
def test_models_are_counted_with_all_that_derive_from_them(tmp_path: Path) -> None:
    files = {
        "engine/model.py": "class Model: ...\nclass Staged(Model): ...",
        "engine/other.py": "from fake.engine import model\nclass Deep(model.Model): ...",
        "far.py": "class Deeper(Deep): ...\nclass Model: ...\nclass Other(Base): ...",
    }
    graph = ImportGraph(tree(tmp_path, files))
    found = engine_names.model_classes(graph, "fake.engine")
    assert [text.split()[1] for text in found] == ["Model", "Staged", "Deep", "Deeper"]


@pytest.mark.parametrize(
    ("source", "used"),
    [
        ("model._run()", ["_run"]),
        ("def f(context):\n    return context.model._run", ["_run"]),
        ("class Own:\n    def _run(self): self._run()", []),
        ("class Own:\n    def _run(self, model): model._run()", ["_run"]),
        ("whatever._bindings", ["_bindings"]),
        ("whatever._kept", []),
        ("model._kept", ["_kept"]),
        ("model._elsewhere", []),
        ("from fake.engine.model import _alloc", ["_alloc"]),
        ("from fake.engine._inner import alloc", ["_inner"]),
        ("import fake.engine._inner", ["_inner"]),
        ("from fake.graph import _alloc", []),
    ],
)
def test_uses_of_private_names_of_the_engine(tmp_path: Path, source: str, used: list[str]) -> None:
    model = "class Model:\n    def _run(self): self._kept = self._bindings = 1\ndef _alloc(): ..."
    files = {"engine/model.py": model, "graph/a.py": "class A:\n    _kept = _run = 1"}
    graph = ImportGraph(tree(tmp_path, {**files, "user.py": source}))
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_it.py").write_text(source)
    found = engine_names.private_uses(graph, [tmp_path / "tests"], "fake.engine")
    assert [text.split()[1] for text in found] == 2 * used


# ---------------------------------------------------------------- kinds of devices
@pytest.mark.parametrize(
    ("source", "asked"),
    [
        ("y = 1 if x.is_host else 2", ["x.is_host"]),
        ("if op.device.is_gpu() or ref.is_cpu(): y = 1", ["op.device.is_gpu", "ref.is_cpu"]),
        (
            "y = isinstance(x, (int, driver.Accelerator))",
            ["isinstance(x, (int, driver.Accelerator))"],
        ),
        ("y = isinstance(x, int)", []),
        ("y = x.device is HOST or CPU() is not z", ["x.device is HOST", "CPU() is not z"]),
        ("y = x.label == 'gpu'", ["x.label == 'gpu'"]),
        ("y = x.label == z or x.kind == 'gpu'", []),
        ("if self.device is None or step.gpu is None: y = 1", ["self.device is None"]),
        ("assert device is not None", []),
    ],
)
def test_questions_for_the_kind_of_a_device(tmp_path: Path, source: str, asked: list[str]) -> None:
    graph = ImportGraph(tree(tmp_path, {"engine/a.py": source, "driver/b.py": "x.is_host"}))
    found = device_kinds.sites(graph, ("fake.engine",))
    assert found == [f"fake/engine/a.py:1 {text}" for text in asked]


# ---------------------------------------------------------------- observers
def test_what_watches_runs_and_is_long_is_counted(tmp_path: Path) -> None:
    longest = "\n" * observers.MOST_LINES
    files = {
        "engine/short.py": "class A(Observer): ..." + longest,
        "engine/seen.py": "class A(observing.Observer): ...\n" + longest,
        "engine/other.py": "class Observer: ...\n" + longest,
        "engine/walk.py": "class Walk: ...\n" + longest,
        "far.py": "class A(Observer): ...\n" + longest,
    }
    graph = ImportGraph(tree(tmp_path, files))
    found = observers.sites(graph, {"walks": "walk", "poison": "gone"}, "fake.engine")
    assert found == [
        "fake.engine.gone (poison): no such module",
        "fake/engine/seen.py: 81 lines",
        "fake/engine/walk.py: 81 lines",
    ]


# ---------------------------------------------------------------- TypeScript
SOURCE = """
// what is said here as number counts for nothing
import { A as Renamed } from './a';
type Json = Record<string, unknown>;
const text = (value: unknown): string | null => (typeof value === 'string' ? value : null);
export function read(data: Json): { name: string; size: number } {
  return { name: text(data.name) ?? '', size: Number(data.size) };
}
export function pass(data: unknown, known: string | null): unknown[] {
  return [data, known ?? '', Number(known), ['a'] as const];
}
export const sure = (list: number[]): number => list[0]! + (list[1] as number);
export const twice = (list: number[]): string => list as unknown as string;
export function parsed(line: string): string {
  try {
    return JSON.parse(line).name;
  } catch (error) {
    return error instanceof Error ? error.message : String(error);
  }
}
export class B extends Renamed {}
export class C extends B {}
"""


@pytest.mark.skipif(
    not (MODULES / "typescript").is_dir() or shutil.which("node") is None,
    reason="needs Node.js and the packages of the extension: scripts/test installs them",
)
def test_typescript_is_counted_by_its_syntax_and_types(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "tsconfig.json").write_text(
        '{"compilerOptions": {"strict": true, "target": "ES2020", "types": []}, "include": ["src"]}'
    )
    (tmp_path / "src" / "a.ts").write_text("export class A extends Map<string, number> {}\n")
    (tmp_path / "src" / "b.ts").write_text(SOURCE)
    (tmp_path / "src" / "made.ts").write_text("// Generated by a program.\n" + SOURCE)

    found = typescript.counted(tmp_path)
    texts = {
        name: [text for file, _, text in sites if file == "b.ts"] for name, sites in found.items()
    }
    assert texts["assertions"] == [
        "list[1] as number",
        "list as unknown",
        "list as unknown as string",
    ]
    assert texts["fallbacks"] == ["Number(data.size)", "text(data.name) ?? ''"]
    assert texts["non_null"] == ["sure: list[0]!"]
    assert texts["deep_classes"] == ["C < B < A"]
    assert texts["validators"] == ["text", "read", "parsed"]

    made = {name for name, sites in found.items() for file, _, _ in sites if file == "made.ts"}
    assert made == {"assertions", "non_null", "deep_classes"}
    allowed = typescript.counted(tmp_path, {"b.ts:sure", "made.ts:sure"}, {"b.ts"})
    assert not allowed["non_null"]
    assert not allowed["validators"]


# ---------------------------------------------------------------- the table
@pytest.mark.parametrize(
    ("count", "fits", "said"), [(3, False, "FAILED"), (2, True, ""), (1, True, "write 1")]
)
def test_a_number_may_only_shrink(count: int, fits: bool, said: str) -> None:
    lines, fit = compared({"casts": count}, {"casts": 2}, [])
    assert fit is fits
    assert said in lines[0]
    assert ("(" in lines[0]) is (count < 2)


# ---------------------------------------------------------------- plans
def test_a_function_in_a_plan_is_found_wherever_it_lies() -> None:
    plan = Plan()
    assert plans.callables(plan) == {}

    def size() -> int:
        return 3

    plan.slots.append(Slot(0, "arena", DType.float32, ONE, (), name=size))  # type: ignore[arg-type]
    plan.aliases[0] = {"deep": [functools.partial(size)]}  # type: ignore[assignment]
    here = "test_a_function_in_a_plan_is_found_wherever_it_lies.<locals>.size"
    assert list(plans.callables(plan)) == [f"Slot.name: {here}", "Plan.aliases: partial"]


def test_plans_have_steps_of_every_kind() -> None:
    kinds = {step.kind for plan in plans.plans() for step in plan.steps}
    assert kinds >= {
        "map", "row", "reduce", "contract", "attention", "concat", "kernel", "transfer", "print",
        "branch", "jump", "refuse", "exchange", "settle", "copy",
    }  # fmt: skip


# ---------------------------------------------------------------- C in strings
def test_lines_of_c_in_strings_are_counted_and_others_are_not(tmp_path: Path) -> None:
    source = '''
"""A docstring; it says: for (;;) {{ }}

    i64 n = 5;
"""

def kernel(at, n):
    """const i64 n = 5;"""
    text = f"""\\
const i64 n = {n};

for (i64 j = 0; j < n; j++) {{
  y0[j] = j;
}}"""
    at.part(text + f"y0[i] = {n};", "i64 rows")
    at.part(
        "#pragma omp simd\\n"
        "for (i64 j = 0; j < n; j++) y0[j] = 0;"
        "a sum, in words; and so on"
    )
    raise ValueError(f"{n} is wrong; got {n}", ";", fix=f"write {n!r}: if (it) is {{}}")
'''
    path = tmp_path / "maxlab" / "opset" / "kernel.py"
    path.parent.mkdir(parents=True)
    path.write_text(source)
    assert c_texts.lines_of(path) == [10, 12, 13, 14, 15, 17, 18]
    assert c_texts.sites(tmp_path)[0] == "maxlab/opset/kernel.py:10"
    assert len(c_texts.sites(tmp_path)) == 7


# ---------------------------------------------------------------- size and words
@pytest.mark.parametrize(
    ("source", "tokens"),
    [
        ("x = 1  # one\n", 3),
        ("'''Says it.'''\nx = 1\n'''One.'''\n", 3),
        ("def f():\n    '''Says it.'''\n    return g(1)\n", 10),
        ("x = f'{a + b} and {c}'\n", 3),
        ("x = f'{a:{b}}' 'c'\n", 4),
        ("x = ''\n", 3),
    ],
)
def test_tokens_of_python_are_those_of_code(source: str, tokens: int) -> None:
    assert size.python_tokens(source) == tokens


def test_texts_of_c_do_not_count_where_kernels_are() -> None:
    source = "x = 'y = 2;', 'name'\nz = '''\nint y\n'''\n"
    assert size.python_tokens(source) == 8
    assert size.python_tokens(source, kernels=True) == 6


def test_tokens_of_typescript_are_those_of_code(tmp_path: Path) -> None:
    if not (MODULES / "typescript").is_dir() or shutil.which("node") is None:
        pytest.skip("needs Node.js and the packages of the extension: scripts/test installs them")
    (tmp_path / "src" / "in").mkdir(parents=True)
    (tmp_path / "node_modules").symlink_to(MODULES)
    (tmp_path / "src" / "a.ts").write_text("/** One. */\nconst x = 1; // one\n")
    (tmp_path / "src" / "in" / "b.tsx").write_text("const x = `a ${y} b`;\n")
    assert size.typescript_tokens(tmp_path) == {"a.ts": 5, "in/b.tsx": 7}


WORDS = """
class A:
    '''What it is.'''

    x = 1
    '''Whole: one.'''

    def f(self):
        '''None; does it.'''
        def g():
            '''Nothing is said.'''

    def _h(self):
        '''Whatever.'''
"""


def test_first_words_and_public_docstrings(tmp_path: Path) -> None:
    graph = ImportGraph(tree(tmp_path, {"a.py": WORDS, "_b.py": "'''Who.'''"}))
    assert words.first_words(graph) == [
        "fake/_b.py:1 Who.",
        "fake/a.py:3 What it is.",
        "fake/a.py:9 None; does it.",
        "fake/a.py:11 Nothing is said.",
        "fake/a.py:14 Whatever.",
    ]
    names = [text.split()[1] for text in words.public_docstrings(graph)]
    assert names == ["fake.a.A", "fake.a.A.x", "fake.a.A.f"]


def test_long_functions_are_counted_without_their_docstrings(tmp_path: Path) -> None:
    most = words.MOST_LINES
    fits = "def f():\n    '''One.\n\n    Two.\n    '''\n" + "    x = 1\n" * (most - 1)
    files = {"a.py": fits, "b.py": fits + "    y = 1\n"}
    graph = ImportGraph(tree(tmp_path, files))
    assert words.long_functions(graph) == [f"fake/b.py:1 f: {most + 1} lines"]


def test_a_number_with_a_floor_may_only_grow() -> None:
    for count, fits in ((1, False), (2, True), (3, True)):
        lines, fit = compared({"texts": count}, {}, [], {"texts": 2})
        assert fit is fits
        assert ("FAILED" in lines[0]) is not fits
