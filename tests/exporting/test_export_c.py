"""Exported programs compute what their models do."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from maxlab import engine
from maxlab.compiler import Options
from maxlab.compiler.conventions import BLOCK, LONG_ROW_COST
from maxlab.dtype import DType
from maxlab.engine import launching, weights
from maxlab.errors import ExecutionError, MaxlabError
from maxlab.graph import BufferType, DeviceRef, Graph, TensorType, Weight, ops
from maxlab.toolchain.prelude import kernels_dir
from tests.exporting.programs import Array, Builder, make

F32, I32, I64, BOOL = DType.float32, DType.int32, DType.int64, DType.bool
RNG = np.random.default_rng(11)
loop: Any = ops.while_loop
branch: Any = ops.cond


def numbers(*shape: int) -> Array:
    return RNG.normal(size=shape).astype("f4")


W1, B1, W2 = numbers(96, 64), numbers(64), numbers(64, 10)
TAPS, TABLE = numbers(3, 3, 8, 16), numbers(10, 6)


def constant(array: Array, dtype: DType = F32) -> Any:
    return ops.constant(array, dtype)


def mlp(x: Any) -> Any:
    return ops.softmax(ops.gelu(x @ constant(W1) + constant(B1)) @ constant(W2))


def counted(x: Any) -> Any:
    def body(i: Any, y: Any) -> Any:
        return i + 1, ops.tanh(y) * 1.5

    zero = ops.constant(0, I32, device=DeviceRef.CPU())
    return loop([zero, x], lambda i, y: i < 7, body)[1]


def chosen(flag: Any, x: Any) -> Any:
    return branch(flag, [x.type], lambda: x * 2, lambda: ops.exp(x))[0]


def halves(x: Any) -> Any:
    made = ops.cast(x, DType.bfloat16) @ ops.constant(W1, DType.bfloat16)
    return ops.cast(made, F32), ops.cast(ops.cast(x, DType.float16) * 3, F32)


def stored(state: Any, x: Any) -> Any:
    state[...] = state[...] * 0.5 + x
    return ops.sum(state[...], axis=1), x - 1


def rows(*dims: Any, dtype: DType = F32) -> TensorType:
    return TensorType(dtype, list(dims))


CASES: dict[str, tuple[Callable[..., Any], Sequence[Any], Sequence[Sequence[Array]]]] = {
    "mlp": (mlp, [rows("n", 96)], [[numbers(48, 96)], [numbers(1, 96)], [numbers(0, 96)]]),
    "conv": (
        lambda x: ops.conv2d(x, constant(TAPS), padding=(1, 1, 1, 1), stride=(2, 2)),
        [rows("n", 20, 20, 8)],
        [[numbers(2, 20, 20, 8)], [numbers(5, 20, 20, 8)]],
    ),
    "two products": (
        lambda x, y: x @ y,
        [rows("m", "k"), rows("k", "n")],
        [[numbers(33, 70), numbers(70, 45)], [numbers(1, 3), numbers(3, 1)]],
    ),
    "batched": (
        lambda x, y: x @ y,
        [rows("b", 9, "k"), rows("b", "k", 12)],
        [[numbers(6, 9, 20), numbers(6, 20, 12)]],
    ),
    "halves": (halves, [rows("n", 96)], [[numbers(21, 96)]]),
    "reductions": (
        lambda x: (
            ops.sum(x, axis=1),
            ops.mean(x, axis=0),
            ops.max(x, axis=1),
            ops.cumsum(x, axis=1),
            ops.argmax(x, axis=1),
        ),
        [rows("n", "m")],
        [[numbers(40, 700)], [numbers(700, 3)]],
    ),
    "integers": (
        lambda a, b: (a // 7, a % 7, ops.max(a, axis=0), ops.cast(a, F32), a * b, a > b),
        [rows("n", 30, dtype=I32), rows("n", 30, dtype=I32)],
        [
            [
                RNG.integers(-999, 999, (50, 30)).astype("i4"),
                RNG.integers(-9, 9, (50, 30)).astype("i4"),
            ]
        ],
    ),
    "bools": (lambda a: ~a, [rows("n", dtype=BOOL)], [[RNG.integers(0, 2, 90).astype(bool)]]),
    "sorted": (
        lambda x: (ops.sort(x, axis=1), *ops.top_k(x, 4, axis=1)),
        [rows("n", 33)],
        [[numbers(7, 33)]],
    ),
    "gathered": (
        lambda i: ops.gather(constant(TABLE), i, axis=0),
        [rows("n", dtype=I64)],
        [[np.array([3, 9, -10, 0])], [np.array([], "i8")]],
    ),
    "no input": (lambda: constant(W1) + 1, [], [[]]),
    "a number": (lambda x: (x * 2, x), [TensorType(F32, [])], [[np.array(3, "f4")]]),
    "joined": (
        lambda x, y: ops.concat([x, y], axis=0),
        [rows("n", 5), rows("m", 5)],
        [[numbers(3, 5), numbers(8, 5)], [numbers(0, 5), numbers(2, 5)]],
    ),
    "reshaped": (lambda x: ops.reshape(x, ["n", 6]) * 2, [rows("n", 2, 3)], [[numbers(9, 2, 3)]]),
    "a sum of sizes": (
        lambda x, y: ops.concat([x, y], axis=0),
        [rows("n", 2), rows("m", 2)],
        [[numbers(4, 2), numbers(5, 2)]],
    ),
    "counted": (counted, [rows("n", 40)], [[numbers(30, 40)], [numbers(2, 40)]]),
    "chosen": (
        chosen,
        [TensorType(BOOL, []), rows("n", 8)],
        [[np.array(True), numbers(5, 8)], [np.array(False), numbers(5, 8)]],
    ),
    "attention": (
        lambda q, k, v: ops.softmax(q @ ops.transpose(k, 2, 3) * 0.2) @ v,
        [rows("b", 2, "t", 16)] * 3,
        [[numbers(2, 2, 25, 16), numbers(2, 2, 25, 16), numbers(2, 2, 25, 16)]],
    ),
    "columns": (
        lambda x: (ops.sum(x, axis=0), ops.max(x, axis=0)),
        [rows("n", "m")],
        [[numbers(300, 600)]],
    ),
}


def load(name: str, body: Callable[..., Any], types: Sequence[Any]) -> engine.Model:
    session = engine.InferenceSession(num_threads=2)
    if types:
        return session.load(Graph(name, body, list(types)))
    with Graph(name) as graph:
        graph.output(body())
    return session.load(graph)


@pytest.mark.parametrize("name", CASES)
def test_the_program_gives_what_the_model_gives(
    builder: Builder, tmp_path: Path, name: str
) -> None:
    body, types, calls = CASES[name]
    model = load(name, body, types)
    program = builder.build(model, tmp_path / "out")
    for inputs in calls:
        wanted = [one.to_numpy() for one in model(*inputs)]
        for threads in (1, 3):
            done = program.run(inputs, len(wanted), threads)
            assert done.code == 0, done.said
            for found, expected in zip(done.outputs, wanted, strict=True):
                assert found.dtype == expected.dtype
                np.testing.assert_array_equal(found, expected)


def test_weights_from_a_registry_and_what_is_computed_of_them(
    builder: Builder, tmp_path: Path
) -> None:
    def body(x: Any) -> Any:
        first = Weight("first", F32, [64, 96], device=DeviceRef.CPU())
        second = Weight("second", F32, [64], device=DeviceRef.CPU())
        return x @ ops.transpose(first * 2, 0, 1) + ops.exp(second)

    graph = Graph("weights", body, [rows("n", 96)])
    registry = {"first": np.ascontiguousarray(W1.T), "second": B1}
    model = engine.InferenceSession().load(graph, weights_registry=registry)
    x = numbers(5, 96)
    done = builder.build(model, tmp_path / "out").run([x], 1)
    assert done.code == 0, done.said
    np.testing.assert_array_equal(done.outputs[0], model(x)[0].to_numpy())


def test_convolutions_by_tiles(builder: Builder, tmp_path: Path) -> None:
    """Their filter is packed in another way than those of other convolutions."""

    def body(x: Any) -> Any:
        w = Weight("w", F32, [3, 3, 32, 64], device=DeviceRef.CPU())
        return ops.relu(ops.conv2d(x, w, padding=(1, 1, 1, 1)))

    graph = Graph("tiles", body, [rows("n", 16, 20, 32)])
    model = engine.InferenceSession().load(
        graph, weights_registry={"w": numbers(3, 3, 32, 64)}, options=Options(accuracy="fast")
    )
    assert any("winograd_f32" in kernel.source for kernel in model.kernels.values())
    x = numbers(2, 16, 20, 32)
    done = builder.build(model, tmp_path / "out").run([x], 1)
    assert done.code == 0, done.said
    wanted = model(x)[0].to_numpy()  # compilers join products and sums of a tile as they like
    assert np.abs(done.outputs[0] - wanted).max() <= 2e-5 * np.abs(wanted).max()


def test_a_buffer_that_is_stored_into(builder: Builder, tmp_path: Path) -> None:
    types = [BufferType(F32, ["n", 6], device=DeviceRef.CPU()), rows("n", 6)]
    model = load("stored", stored, types)
    state, x = numbers(4, 6), numbers(4, 6)
    done = builder.build(model, tmp_path / "out").run([state, x], 2)
    assert done.code == 0, done.said
    for found, expected in zip(done.outputs, model(state, x), strict=True):
        np.testing.assert_array_equal(found, expected.to_numpy())


FAULTS: dict[str, tuple[Callable[..., Any], Sequence[Any], Sequence[Array], int, str]] = {
    "an index": (
        CASES["gathered"][0],
        CASES["gathered"][1],
        [np.array([0, 10])],
        1,
        r"gather.* the index 10 is out of range for a dim of size 10 .*line \d+\) \[ML652\]",
    ),
    "two sizes": (
        CASES["two products"][0],
        CASES["two products"][1],
        [numbers(2, 3), numbers(4, 5)],
        2,
        r"has the size 4 at axis 0, but its type .* says 3 \[ML602\]",
    ),
    "a rank": (
        mlp,
        [rows("n", 96)],
        [numbers(96)],
        2,
        r"in0.npy: it has 1 axes, expected float32\[n, 96\]",
    ),
    "a dtype": (
        mlp,
        [rows("n", 96)],
        [numbers(2, 96).astype("f8")],
        2,
        r"its elements are <f8, expected <f4",
    ),
    "an order": (
        mlp,
        [rows("n", 96)],
        [np.asfortranarray(numbers(2, 96))],
        2,
        "its last axis is not closest",
    ),
    "a condition": (
        lambda x, y: x.rebind(["m", 2]) + y,
        [rows("n", 2), rows("m", 2)],
        [numbers(3, 2), numbers(4, 2)],
        2,
        r"3 == 4 does not hold.*ML603",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_what_is_wrong_is_said(builder: Builder, tmp_path: Path, name: str) -> None:
    body, types, inputs, code, words = FAULTS[name]
    model = load(name.replace(" ", "_"), body, types)
    with pytest.raises(MaxlabError):
        model(*inputs)
    done = builder.build(model, tmp_path / "out").run(inputs, 1)
    assert done.code == code, done.said
    assert re.search(words, done.said), done.said


def test_a_fault_is_the_one_of_the_model(builder: Builder, tmp_path: Path) -> None:
    body, types, _ = CASES["gathered"]
    model = load("faulty", body, types)
    with pytest.raises(ExecutionError) as caught:
        model(np.array([1, -11]))
    done = builder.build(model, tmp_path / "out").run([np.array([1, -11])], 1)
    assert (done.code, caught.value.code) == (1, "ML652")
    assert caught.value.what in done.said
    assert done.said.count("\n") == 1


def test_the_constants_are_those_of_the_engine() -> None:
    text = (kernels_dir() / "c" / "export" / "model.c").read_text()
    text += (kernels_dir() / "c" / "export" / "plan.h").read_text()
    wanted = {
        "GRAIN_COST": launching.GRAIN_COST,
        "PIECE_COST": launching.PIECE_COST,
        "SMALL_PRODUCT": launching.SMALL_PRODUCT,
        "BLOCK": BLOCK,
        "PACKED_AT_ONCE": weights.PACKED_AT_ONCE,
        "PLAN_LONG": LONG_ROW_COST,
    }
    for name, value in wanted.items():
        found = re.search(rf"^#define {name} +(\(1 << (\d+)\)|\d+)", text, re.MULTILINE)
        assert found is not None, name
        assert (1 << int(found[2]) if found[2] else int(found[1])) == value, name


def test_plain_files_of_numbers(builder: Builder, tmp_path: Path) -> None:
    model = load("plain", mlp, [rows("n", 96)])
    program = builder.build(model, tmp_path / "out")
    x = numbers(3, 96)
    (program.folder / "x.bin").write_bytes(x.tobytes())
    done = program.call("x.bin:3x96", "y.bin")
    assert done.returncode == 0, done.stderr
    found = np.fromfile(program.folder / "y.bin", "f4").reshape(3, 10)
    np.testing.assert_array_equal(found, model(x)[0].to_numpy())


def test_bfloat16_in_files(builder: Builder, tmp_path: Path) -> None:
    import ml_dtypes

    model = load("brief", lambda x: x * 2, [rows("n", dtype=DType.bfloat16)])
    x = numbers(9).astype(ml_dtypes.bfloat16)
    done = builder.build(model, tmp_path / "out").run([x], 1)
    assert done.code == 0, done.said
    np.testing.assert_array_equal(done.outputs[0].view(ml_dtypes.bfloat16), x * 2)


USER = r"""
#include "model.h"
#include <stdio.h>
int main(void) {
  char said[64];
  model *one, *two, *none;
  int code = model_create(&none, "nowhere.bin", 1, said, sizeof said);
  if (code != MODEL_BAD_WEIGHTS || none) return 10;
  if (model_create(&one, "weights.bin", 2, said, sizeof said)) return 11;
  if (model_create(&two, "weights.bin", 0, said, sizeof said)) return 12;
  static float x[4 * 96];
  for (int i = 0; i < 4 * 96; i++) x[i] = (float)(i % 7);
  model_value in = {.data = x, .rank = 2, .shape = {4, 96}}, a, b;
  if (model_run(one, &in, &a) || a.rank != 2 || a.shape[0] != 4 || a.shape[1] != 10) return 13;
  in.shape[0] = 2;
  if (model_run(two, &in, &b) || b.shape[0] != 2) return 14;
  for (int i = 0; i < 20; i++) if (((float *)a.data)[i] != ((float *)b.data)[i]) return 15;
  in.shape[1] = 95;
  if (model_run(one, &in, &a) != MODEL_BAD_INPUT) return 16;
  puts(model_message(one));
  in.shape[0] = in.shape[1] = (int64_t)1 << 60;
  if (model_run(one, &in, &a) != MODEL_BAD_INPUT) return 17;
  in = (model_value){.data = x, .rank = 2, .shape = {-1, 96}};
  if (model_run(one, &in, &a) != MODEL_BAD_INPUT) return 18;
  in.shape[0] = 1, in.data = (char *)x + 1;
  if (model_run(one, &in, &a) != MODEL_BAD_INPUT) return 19;
  in.data = x;
  if (model_run(one, &in, &a) || *model_message(one)) return 20;
  model_destroy(one), model_destroy(two), model_destroy(NULL);
  return 0;
}
"""


def test_the_interface_of_c(builder: Builder, tmp_path: Path) -> None:
    program = builder.build(load("api", mlp, [rows("n", 96)]), tmp_path / "out")
    (program.folder / "user.c").write_text(USER)
    objects = [one.name for one in program.folder.glob("*.o") if one.name != "main.o"]
    command = ["gcc", "-Wall", "-Wextra", "-Werror", "user.c", *objects]
    command += ["-o", "user", "-pthread", "-lm"]
    subprocess.run(command, cwd=program.folder, check=True, timeout=100)
    done = subprocess.run(
        ["./user"], cwd=program.folder, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done
    assert "ML602" in done.stdout


@pytest.mark.parametrize("command", ["clang", "zig cc"])
def test_other_compilers_build_it(builder: Builder, tmp_path: Path, command: str) -> None:
    if shutil.which(command.split(maxsplit=1)[0]) is None:
        pytest.skip(f"needs {command}")
    model = load("others", mlp, [rows("n", 96)])
    made = model.export_c(tmp_path / "out")
    make(made.folder, f"CC={command}", "-j2")
    x = numbers(4, 96)
    np.save(made.folder / "x.npy", x)
    subprocess.run(["./model", "x.npy", "y.npy"], cwd=made.folder, check=True, timeout=60)
    found = np.load(made.folder / "y.npy")
    np.testing.assert_allclose(found, model(x)[0].to_numpy(), rtol=1e-5, atol=1e-6)
