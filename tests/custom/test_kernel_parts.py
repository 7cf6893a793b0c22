"""Kernel libraries whose ops have parts, memory of their own, conditions and macros."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    ExecutionError,
    ParseError,
    ShapeError,
    ToolchainError,
)
from maxlab.graph import DeviceRef, Graph, KernelLibrary, TensorType, ops
from maxlab.opset.conditions import UNKNOWN, Condition, ConditionError, UnknownSizeError
from maxlab.opset.declared import read_library
from maxlab.opset.kernel_files import own_library
from maxlab.toolchain.diagnose import place_of

CPU = DeviceRef.CPU()
ROWS = TensorType(DType.float32, ["r", "n"])
MEANS = """
// @op centred(x: T[r, n]) -> (y: T[r, n])
// @types T: float32 | float64 | float16 | int32
// @temp means: Kept[r]
// @params Kept: DType = float64
// @items r
// @part means
// @both
Kept sum = 0;
for (i64 j = 0; j < n; j++) sum += load(x, i * n + j);
store(means, i, sum / n);
// @part subtract
// @both items=r*n
store(y, i, load(x, i) - (T)load(means, i / n));
"""


def made(
    text: Any,
    name: str,
    arrays: list[Any],
    types: list[TensorType],
    guard: bool = False,
    **given: Any,
) -> list[Any]:
    """What the op ``name`` makes of ``arrays``, whose dims have names in the graph."""
    inputs = [
        TensorType(DType.from_numpy(a.dtype), [f"d{n}_{m}" for m in range(a.ndim)])
        for n, a in enumerate(arrays)
    ]
    with Graph("g", input_types=inputs, custom_extensions=text) as graph:
        graph.output(*ops.custom(name, CPU, list(graph.inputs), list(types), given))
    model = engine.InferenceSession().load(graph, guard=guard)
    return [out.to_ml_numpy() for out in model(*arrays)]


@pytest.mark.parametrize("guard", [False, True])
def test_parts_run_one_after_another_and_share_memory(guard: bool) -> None:
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    (y,) = made(MEANS, "centred", [x], [TensorType(DType.float32, ["d0_0", "d0_1"])], guard)
    np.testing.assert_array_equal(y, x - x.mean(1, keepdims=True))


def test_parts_have_names_and_a_flop_count() -> None:
    with Graph("g", input_types=[ROWS], custom_extensions=MEANS) as graph:
        graph.output(*ops.custom("centred", CPU, [graph.inputs[0]], [ROWS]))
    steps = engine.InferenceSession().load(graph).plan.steps
    assert [step.name for step in steps] == ["centred_means", "centred_subtract"]


CHOSEN = """
// @op chosen(x: T[n]) -> (y: T[n])
// @types T: any
// @params MODE: str = "add" in "add", "double"; BY: float = 0.5; LIST: ints = (1, -2)
// @both
// @if MODE == "double"
store(y, i, 2 * load(x, i));
// @elif is_float(T) and not is_half(T)
store(y, i, load(x, i) + BY);
// @else
store(y, i, load(x, i) + LIST.0 + LIST.1 + LIST.size);
// @endif
"""


@pytest.mark.parametrize(
    ("dtype", "given", "wanted"),
    [
        (DType.float32, {}, 3.5),
        (DType.float64, {"BY": 0.1}, 3.1),
        (DType.float16, {}, 4.0),
        (DType.int8, {"LIST": (7,) * 2}, 19),
        (DType.int8, {"MODE": "double"}, 6),
        (DType.uint64, {"LIST": [1, 1]}, 7),
    ],
)
def test_lines_are_chosen_by_dtype_and_parameter(
    dtype: DType, given: dict[str, Any], wanted: float
) -> None:
    x = np.full(3, 3).astype(dtype.ml_numpy)
    (y,) = made(CHOSEN, "chosen", [x], [TensorType(dtype, ["d0_0"])], **given)
    assert y.tolist() == [np.array(wanted).astype(dtype.ml_numpy).item()] * 3


def test_a_size_is_chosen_by_where_it_is_known() -> None:
    text = """
// @op sized(x: float32[n]) -> (y: float32[n])
// @c
// @if known(n) and n < 4
store(y, i, 1);
// @else
store(y, i, 2);
// @endif
"""
    x = np.zeros(3, np.float32)
    (named,) = made(text, "sized", [x], [TensorType(DType.float32, ["d0_0"])])
    assert named.tolist() == [2, 2, 2]
    with Graph("g", input_types=[TensorType(DType.float32, [3])], custom_extensions=text) as graph:
        graph.output(*ops.custom("sized", CPU, [graph.inputs[0]], [graph.inputs[0].tensor.type]))
    (known,) = engine.InferenceSession().load(graph)(x)
    assert known.to_numpy().tolist() == [1, 1, 1]


def test_a_checked_index_counts_from_the_end_and_refuses() -> None:
    text = """
// @op take(x: float32[n], at: int64[m]) -> (y: float32[m])
// @both
index(w, load(at, i), n);
store(y, i, x[w]);
"""
    x, kind = np.arange(4, dtype=np.float32), [TensorType(DType.float32, ["d1_0"])]
    (y,) = made(text, "take", [x, np.array([0, -1, 3])], kind)
    assert y.tolist() == [0, 3, 3]
    for wrong in (4, -5):
        with pytest.raises(ExecutionError) as caught:
            made(text, "take", [x, np.array([0, wrong])], kind)
        assert caught.value.code == "ML652"
        assert f"take: the index {wrong}" in caught.value.what


SQUARES = """
// @macro Sum = f64 if T == float64 else f32
// @macro squared(V) = (V) * (V)
// @macro add_up(NAME, FROM, TO)
Sum NAME##_all = 0;
for (i64 j = FROM; j < TO; j++) {
  // @if is_half(T)
  NAME##_all += squared((f32)load(x, j));
  // @else
  NAME##_all += squared(load(x, j));
  // @endif
}
// @end
"""
NORMS = """
// @op norms(x: T[r, n]) -> (y: T[r], halves: T[r])
// @types T: any
// @sizes half = n // 2
// @both
// @before
const i64 used = half + 0;
// @each
add_up(row, i * n, (i + 1) * n);
store(y, i, row_all);
add_up(some, i * n, i * n + used);
store(halves, i, some_all);
"""


@pytest.mark.parametrize("dtype", [DType.float32, DType.float64, DType.bfloat16])
def test_macros_sizes_and_what_stands_in_front_of_the_loop(dtype: DType) -> None:
    x = np.arange(10).reshape(2, 5).astype(dtype.ml_numpy)
    kinds = [TensorType(dtype, ["d0_0"])] * 2
    for text in (SQUARES + NORMS, NORMS + SQUARES):
        y, halves = made(text, "norms", [x], kinds)
        assert y.astype(float).tolist() == [30, 255]
        assert halves.astype(float).tolist() == [1, 61]


def test_macros_of_another_file_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "squares.c").write_text(SQUARES)
    (tmp_path / "norms.c").write_text("// @use squares.c\n" + NORMS)
    x = np.ones((2, 5), np.float32)
    y, _ = made(tmp_path, "norms", [x], [TensorType(DType.float32, ["d0_0"])] * 2)
    assert y.tolist() == [5, 5]
    library = KernelLibrary(None, [tmp_path])
    assert "// @macro from=" in library["norms"].source
    with pytest.raises(ParseError, match=r"no file 'squares.c' beside it"):
        read_library("// @use squares.c\n" + NORMS, "norms.c")


def test_what_a_compiler_refuses_has_its_line_in_a_macro_and_behind_conditions() -> None:
    text = """
// @op wrong(x: float32[n]) -> (y: float32[n])
// @params N: int = 1
// @c
// @if N == 2
store(y, i, 0);
// @endif
fill(i);
// @if N == 1
store(y, i, unknown_name);
// @endif
// @macro fill(AT)
store(y, AT, 1);
store(y, AT, WRONG_TOO);
"""
    for number, line in (("WRONG_TOO", 14), ("unknown_name", 10)):
        fine = text.replace("WRONG_TOO" if number == "unknown_name" else "unknown_name", "1")
        library = KernelLibrary()
        library.add_source(fine, file="wrong.c")
        with pytest.raises(ToolchainError) as caught:
            made(library, "wrong", [np.zeros(1, np.float32)], [TensorType(DType.float32, ["d0_0"])])
        assert caught.value.code == "ML502"
        assert f"line {line} of wrong.c" in caught.value.what


ONE = "// @op one(x: T[n]) -> (y: T[n])\n// @types T: float32 | int8\n"


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        (ONE + "// @both\n// @if n\nstore(y, i, 0);\n", 4, "no @endif"),
        (ONE + "// @both\n// @else\nstore(y, i, 0);\n", 4, "behind no @if"),
        (ONE + "// @both\n// @if n ===\nstore(y, i, 0);\n// @endif\n", 4, "not a condition"),
        (ONE + "// @both\n// @if m == 1\nstore(y, i, 0);\n// @endif\n", 4, "no parameter, type"),
        (ONE + "// @both\n// @if x.y == 1\nstore(y, i, 0);\n// @endif\n", 4, "in it"),
        (ONE + "// @both\n// @if (lambda: 1)()\nstore(y, i, 0);\n// @endif\n", 4, "in it"),
        (ONE + "// @if n == 1\n// @both\nstore(y, i, 0);\n// @endif\n", 3, "outside of any body"),
        (ONE + "// @part\n// @both\ny[i] = 0;\n", 3, "is no part"),
        (ONE + "// @part a\n// @part b\n// @both\ny[i] = 0;\n", 3, "a has no body"),
        (ONE + "// @both\ny[i] = 0;\n// @part b\n// @both\ny[i] = 0;\n", 5, "of no part"),
        (ONE + "// @part a\n// @c\ny[i] = 0;\n// @part a\n// @c\ny[i] = 0;\n", 6, "two parts"),
        (ONE + "// @temp t[n]\n// @both\ny[i] = 0;\n", 3, "is no memory"),
        (ONE + "// @temp t: U[n]\n// @both\ny[i] = 0;\n", 3, "element type"),
        (ONE + "// @temp t: T[m]\n// @both\ny[i] = 0;\n", 3, "which is no dim"),
        (ONE + "// @temp x: T[n]\n// @both\ny[i] = 0;\n", 1, "two things"),
        (ONE + "// @sizes half = m\n// @both\ny[i] = 0;\n", 3, "which is no dim"),
        (ONE + "// @both\n// @before\n// @each\n", 3, "is empty"),
        (ONE + "// @both\ny[i] = 0;\n// @before\ny[i] = 0;\n", 5, "behind statements"),
        (ONE + "// @both\na;\n// @macro a\nb\n// @macro b\na\n", 1, "circle"),
        (ONE + "// @both\na;\n// @macro a = \n", 5, "no text"),
        (ONE + "// @both\na;\n// @macro a = 1 if n\n// @macro a = 2\n", 6, "twice"),
        (ONE + "// @both\na;\n// @macro a = 1 if n == \n", 5, "not a condition"),
        (ONE + "// @both\na;\n// @macro a\n// @if n\nb\n", 6, "no @endif"),
        (ONE + "// @params L: ints = 3\n// @both\ny[i] = 0;\n", 3, "not a value"),
    ],
)
def test_malformed_texts_name_the_line(text: str, line: int, what: str) -> None:
    with pytest.raises(ParseError) as caught:
        read_library(text, "k.c")
    assert caught.value.code == "ML761"
    assert what in caught.value.what
    assert caught.value.at is not None
    assert (caught.value.at.file, caught.value.at.line) == ("k.c", line)


def test_what_cannot_be_decided_is_told_when_the_op_is_made() -> None:
    vector = TensorType(DType.float32, ["n"])
    body = "store(y, i, 0);\n"
    cases: list[tuple[str, type[Exception], str]] = [
        (f"// @both\n// @if n == 1\n{body}// @endif\n{body}", ShapeError, "ML470"),
        (f"// @both\n// @if T < 1\n{body}// @endif\n{body}", ArgumentError, "ML471"),
        (f"// @part a if T == int8\n// @both\n{body}", ShapeError, "ML472"),
    ]
    for text, kind, code in cases:
        with Graph("g", input_types=[vector], custom_extensions=ONE + text) as graph:
            with pytest.raises(kind) as caught:
                ops.custom("one", CPU, [graph.inputs[0]], [vector])
            assert getattr(caught.value, "code", None) == code


@pytest.mark.parametrize(
    ("name", "value"), [("BY", "a"), ("BY", True), ("LIST", 3), ("LIST", ("a",)), ("LIST", (True,))]
)
def test_parameters_of_another_type_are_refused(name: str, value: Any) -> None:
    text = CHOSEN.replace("[n]", "[r, n]")
    graph = Graph("g", input_types=[ROWS], custom_extensions=text)
    with graph, pytest.raises(ArgumentTypeError) as caught:
        ops.custom("chosen", CPU, [graph.inputs[0]], [ROWS], {name: value})
    assert caught.value.code == "ML768"


def test_a_graph_with_all_kinds_of_parameters_is_saved_and_read(tmp_path: Path) -> None:
    import maxlab

    x, kind = np.full(3, 3, np.float32), TensorType(DType.float32, ["n"])
    with Graph("g", input_types=[kind], custom_extensions=CHOSEN) as graph:
        given: dict[str, Any] = {"BY": 0.25, "LIST": (5, 6)}
        graph.output(*ops.custom("chosen", CPU, [graph.inputs[0]], [kind], given))
    maxlab.save(graph, tmp_path / "g.mlgraph")
    again = maxlab.open(tmp_path / "g.mlgraph", trusted=True)
    (y,) = engine.InferenceSession().load(getattr(again, "graph", again))(x)
    assert y.to_numpy().tolist() == [3.25] * 3


def test_conditions() -> None:
    env = {"N": 3, "M": UNKNOWN, "T": DType.float16, "MODE": "max"}
    holding = (
        "N == 3", "N in (1, 3)", "not N < 2 and N % 2 == 1", "T in (float16, float32)", "known(N)",
        "not known(M)", "known(M) and M > 1 or N == 3", "bits(T) == 16", "is_half(T)", "1 < N <= 3",
        "MODE != 'min'", "-N < -2",
    )  # fmt: skip
    for text in holding:
        assert Condition(text).holds(env), text
        assert not Condition(f"not ({text})").holds(env), text
    with pytest.raises(UnknownSizeError):
        Condition("M == 1").holds(env)
    for text in ("T < 3", "is_float(N)", "N // 0 == 1", "A == 1"):
        with pytest.raises(ConditionError):
            Condition(text).holds(env)
    for text in ("f(1)", "N.a", "N[0]", "lambda: 1", "known(1)", "x := 1", "'a' 'b' f''", ""):
        with pytest.raises(ConditionError):
            Condition(text)


def test_the_files_of_the_op_table_are_read_and_their_ops_have_one_name_each() -> None:
    folder = Path(__file__).resolve().parents[2] / "kernels" / "ops"
    names = [name for path in sorted(folder.iterdir()) for name in own_library(path.name)]
    assert len(names) == len(set(names)) > 20


def test_each_line_of_a_kernel_of_maxlab_names_its_line_in_the_file() -> None:
    """What the Source panel shows and what an error of the compiler names: see ``place_of``."""
    root = Path(__file__).resolve().parents[2]
    with Graph("g", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        values = ops.top_k(graph.inputs[0].tensor, 3)
        graph.output(*values, ops.cumsum(graph.inputs[0].tensor))
    model = engine.InferenceSession().load(graph)
    texts = [kernel.source for kernel in model.kernels.values()]
    found: dict[str, int] = {}
    for text in texts:
        lines = text.splitlines()
        for number, line in enumerate(lines, start=1):
            at = place_of(text, number)
            if at is None or line.strip().startswith("// @from"):
                continue
            own = (root / at.file).read_text("utf-8").splitlines()[at.line - 1]
            if own.strip() == line.strip() and own.strip() not in ("}", ""):
                found[at.file] = found.get(at.file, 0) + 1
    assert found["kernels/ops/sorting.c"] > 10
    assert found["kernels/ops/scan.c"] > 3
