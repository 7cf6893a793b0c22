"""What advice promises: intervals, predictions that are withheld, and the words of each kind."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, get_args

import numpy as np
import pytest

from benchmarks.advice import PLANTED
from maxlab import engine
from maxlab.analysis.advice import Action, Advice, advice, experiments
from maxlab.analysis.advice.action import Kind
from maxlab.analysis.advice.rules import changed_text
from maxlab.analysis.machine import Machine
from maxlab.compiler import Options
from maxlab.config import config, set_config
from maxlab.engine.profile import Profile
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, Weight, ops
from tests.analysis import ceilings as made
from tests.analysis.test_roofline import BF16, F32, F64, model_of, profile_of


@pytest.fixture(autouse=True)
def ceilings() -> Iterator[None]:
    """The made-up machine, whose ceilings are known, in a session of one thread."""
    old = set_config(replace(config(), num_threads=1))
    with made.known(made.machine()):
        yield
    set_config(old)


def layers(*widths: int) -> Profile:
    """Of layers that one line writes, each of its own width."""
    size = 64

    def feed_forward(x: TensorValue, wide: int) -> TensorValue:
        first, second = (
            ops.constant(np.ones(shape, np.float32), F32) for shape in ((size, wide), (wide, size))
        )
        return ops.matmul(ops.gelu(ops.matmul(x, first)), second)

    with Graph("layers", input_types=[TensorType(F32, [32, size])]) as graph:
        x = graph.inputs[0].tensor
        for wide in widths:
            x = x + feed_forward(x, wide)
        graph.output(x)
    model = engine.InferenceSession(num_threads=1).load(graph)
    profile = profile_of(model, np.ones((32, size), np.float32), ns=100.0)
    profile.kernels = [replace(k, ns=k.flops / 50, ns_min=k.flops // 60) for k in profile.kernels]
    profile.kernel_samples_ns = np.tile([k.ns for k in profile.kernels], (8, 1))
    return profile


def busy(profile: Profile) -> Profile:
    """The profile, had something else used the machine in most of its runs."""
    walls = np.array([1.0, *[2.5] * 7]) * profile.wall_ns
    profile.wall_samples_ns = walls
    profile.kernel_samples_ns = np.outer(walls / profile.wall_ns, [k.ns for k in profile.kernels])
    profile.kernels = [replace(k, ns=2.5 * k.ns, ns_min=round(k.ns)) for k in profile.kernels]
    return profile


# ---------------------------------------------------------------- intervals
def test_an_interval_holds_what_the_runs_varied_by() -> None:
    model, inputs = PLANTED[0].make(8)
    profile = profile_of(model, *inputs, ns=1000.0)
    still = advice(profile).action("hoist")
    wide = profile_of(model, *inputs, ns=1000.0)
    factors = np.linspace(0.9, 1.3, 8)
    wide.kernel_samples_ns = wide.kernel_samples_ns * factors[:, None]
    found = advice(wide).action("hoist")
    assert found.predicted_ns == still.predicted_ns
    for action in (still, found):
        assert action.low_ns is not None
        assert action.high_ns is not None
    assert found.high_ns is not None
    assert found.low_ns is not None
    assert (found.low_ns, found.high_ns) < (still.low_ns, found.high_ns)
    assert found.prediction.startswith("saves ")


def test_what_may_save_nothing_is_no_advice() -> None:
    model, inputs = PLANTED[1].make(8)
    profile = profile_of(model, *inputs, ns=1000.0)
    assert "freeze:1" in [action.id for action in advice(profile)]
    pack = next(n for n, k in enumerate(profile.kernels) if k.kind == "pack")
    again = profile_of(model, *inputs, ns=1000.0)
    samples = again.kernel_samples_ns.copy()
    samples[:, pack] = [0, 0, 0, 0, 1000, 2000, 2000, 2000]
    again.kernel_samples_ns = samples
    assert "freeze:1" not in [action.id for action in advice(again)]


# ---------------------------------------------------------------- withheld
def test_nothing_is_predicted_on_a_busy_machine() -> None:
    actions = advice(busy(layers(128, 128, 512, 128)))
    (first,) = actions[:1]
    assert first.kind == "unlike"
    assert (first.predicted_ns, first.predicted_share) == (None, None)
    assert (first.low_ns, first.high_ns) == (None, None)
    assert "too busy to tell" in first.withheld
    assert "over 1.5 times as long" in actions.withheld
    text = actions.table()
    assert text.startswith("no savings are predicted: the machine was too busy to tell")
    assert "saves" not in text
    assert "saves" not in experiments(busy(layers(128, 128, 512, 128))).table()


def test_a_busy_machine_is_not_taken_for_slow_memory() -> None:
    def build(x: Any) -> Any:
        return ops.sum(ops.transpose(x, 0, 1) * 2.0, axis=-1)

    model = model_of(build, (F32, [512, 512]))
    x = np.ones((512, 512), np.float32)
    assert "layout:k0" in [a.id for a in advice(profile_of(model, x, ns=1e6))]
    assert "layout:k0" not in [a.id for a in advice(busy(profile_of(model, x, ns=1e6)))]


@pytest.mark.parametrize(
    ("runs", "words"),
    [(1, "1 run cannot tell how much runs differ"), (4, "4 runs cannot tell how much runs differ")],
)
def test_few_runs_predict_nothing(runs: int, words: str) -> None:
    model, inputs = PLANTED[1].make(8)
    actions = advice(model.profile(*inputs, runs=runs))
    assert actions.withheld.startswith(words)
    assert actions.withheld.endswith("profile with runs=5 or more")
    assert all(action.predicted_ns is None for action in actions)


def test_nothing_found_is_said_with_the_reason() -> None:
    assert Advice().table() == "nothing is predicted to save a hundredth of the time"
    assert Advice((), "the machine was too busy").table() == (
        "nothing was found, and the machine was too busy"
    )


# ---------------------------------------------------------------- equals
@pytest.mark.parametrize("make", [lambda p: p, busy], ids=["quiet", "busy"])
def test_the_wide_layer_comes_first(make: Callable[[Profile], Profile]) -> None:
    profile = make(layers(128, 128, 512, 128))
    first = advice(profile)[0]
    products = sorted((k for k in profile.kernels if k.kind == "contract"), key=lambda k: -k.flops)
    assert set(first.kernels) == {k.id for k in products[:2]}
    assert not first.can_try


@pytest.mark.parametrize(
    "widths",
    [(128, 128, 128, 128), (128, 512, 128), (128, 512, 512, 128, 128), (128, 192, 128, 128)],
)
def test_layers_are_not_called_unlike_without_reason(widths: tuple[int, ...]) -> None:
    assert not [a for a in advice(layers(*widths)) if a.kind == "unlike"]


def test_a_function_that_multiplies_is_used_for_many_things() -> None:
    def linear(x: TensorValue, columns: int) -> TensorValue:
        rows = int(x.shape[-1])
        return ops.matmul(x, ops.constant(np.ones((rows, columns), np.float32), F32))

    with Graph("g", input_types=[TensorType(F32, [32, 64])]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(4):
            x = ops.tanh(linear(x, 64))
        graph.output(linear(x, 4096))  # a last layer, which has its own reader
    model = engine.InferenceSession(num_threads=1).load(graph)
    profile = profile_of(model, np.ones((32, 64), np.float32), ns=1000.0)
    assert not [a for a in advice(profile) if a.kind == "unlike"]


# ---------------------------------------------------------------- words
def _weights(count: int) -> Profile:
    """A product with a weight that ``count`` kernels compute."""
    w = Weight("w", F32, [64, 64], DeviceRef.CPU())
    with Graph("g", input_types=[TensorType(F32, [4, 64])]) as graph:
        value: Any = ops.tanh(w)
        if count > 1:
            value = value * ops.rsqrt(ops.sum(w * w, axis=-1) + 1e-6)
        graph.output(graph.inputs[0].tensor @ value)
    model = engine.InferenceSession(num_threads=1).load(
        graph,
        weights_registry={"w": np.ones((64, 64), np.float32)},
        options=Options(at_load=False),
    )
    return profile_of(model, np.ones((4, 64), np.float32), ns=1000.0)


def _chain(count: int) -> Profile:
    kind = TensorType(F32, [1 << 20])
    with Graph("chain", input_types=[kind]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(count):
            x = x * 1.5
        graph.output(x)
    session = engine.InferenceSession(num_threads=1)
    model = session.load(graph, options=Options(fuse=False))
    return profile_of(model, np.ones(1 << 20, np.float32), ns=5e5)


def _of(build: Callable[..., Any], *inputs: Any, ns: float, threads: int = 1) -> Profile:
    kinds = [(F64 if x.dtype == np.float64 else F32, list(x.shape)) for x in inputs]
    return profile_of(model_of(build, *kinds, threads=threads), *inputs, ns=ns)


def _rows(rows: int) -> Profile:
    model, _ = PLANTED[4].make(4)
    return profile_of(model, np.ones((rows, 512), np.float32), ns=2e4)


def _waiting(rows: int) -> Profile:
    model = model_of(ops.softmax, (F32, ["rows", 1 << 14]), threads=2)
    found = profile_of(model, np.ones((rows, 1 << 14), np.float32), ns=400.0)
    found.kernels = [replace(k, busy_ns=(400.0, 0.0), imbalance=0.5) for k in found.kernels]
    return found


def _threads(count: int) -> Profile:
    set_config(replace(config(), num_threads=count))
    size = 1 << 16
    return _of(ops.exp, np.ones(size, np.float32), ns=size * 0.32, threads=3 - count)


def _shared(build: Callable[..., Any]) -> Profile:
    return _of(build, np.ones((64, 4096), np.float32), ns=1e5, threads=2)


def _slow_to_share() -> Machine:
    """A machine on which it takes long to wake a second thread."""
    found = made.machine()
    at = {**found.at, 2: replace(found.at[2], shared_dispatch_ns=90_000.0)}
    return replace(found, at=at)


def _ones(*shape: int, dtype: Any = np.float32) -> Any:
    return np.ones(shape, dtype)


CASES: list[tuple[str, Callable[[], Profile], str, str]] = [
    (
        "hoist",
        lambda: _weights(1),
        "Compute what depends on weights alone before the model is loaded",
        (
            "k0 (tanh) and k1 (pack_matmul) read only weights and constants, and so compute the "
            "same in every run. Computed once instead, they cost a run nothing."
        ),
    ),
    (
        "hoist",
        lambda: _weights(2),
        "Compute what depends on weights alone before the model is loaded",
        (
            "k0 (tanh_mul_sum_2_more) and k1 (pack_matmul) read only weights and constants, and so "
            "compute the same in every run. Computed once instead, they cost a run nothing."
        ),
    ),
    (
        "freeze:1",
        lambda: _of(ops.matmul, _ones(8, 64), _ones(64, 32), ns=500.0),
        "Make input1 a weight",
        (
            "input1 is the right operand of a product, and k0 (pack_matmul) lays it out anew in "
            "every run. A weight is laid out once, when the model is loaded. Only right if input1 "
            "is the same in every run."
        ),
    ),
    (
        "freeze:1",
        lambda: profile_of(
            model_of(ops.matmul, (F32, [8, 64]), (F32, [64, "n"])),
            _ones(8, 64),
            _ones(64, 32),
            ns=500.0,
        ),
        "Make input1 a weight",
        (
            "input1 is the right operand of a product, and k0 (pack_matmul) lays it out anew in "
            "every run. A weight is laid out once, when the model is loaded. Only right if input1 "
            "is the same in every run; and its dims have to be numbers, not [64, n]."
        ),
    ),
    (
        "fuse",
        lambda: _chain(4),
        "Let kernels compute several operations",
        (
            "The model was compiled with fuse=False. Fused, it would have 1 kernel instead of 4, "
            "and move 8.39 MB instead of 33.6 MB."
        ),
    ),
    (
        "fuse:off",
        lambda: _of(lambda x: ops.tanh(x * 2.0), _ones(1 << 20), ns=4e5),
        "Compute each operation by itself",
        "The model would have 2 kernels instead of 1, and move 16.8 MB instead of 8.39 MB.",
    ),
    (
        "dtype:float32",
        lambda: _of(lambda x: x * 2.0, _ones(1 << 20, dtype=np.float64), ns=1e6),
        "Compute in float32",
        (
            "k0 (mul) computes in float64, which NumPy makes of numbers unless it is asked "
            "otherwise. float32 moves half the bytes and computes faster, with 7 digits instead of "
            "16."
        ),
    ),
    (
        "dtype:float32",
        lambda: _of(
            lambda x: (x * 2.0, ops.sum(x, axis=0)),
            _ones(1 << 10, 1 << 10, dtype=np.float64),
            ns=1e6,
        ),
        "Compute in float32",
        (
            "k0 (mul) and k1 (sum) compute in float64, which NumPy makes of numbers unless it is "
            "asked otherwise. float32 moves half the bytes and computes faster, with 7 digits "
            "instead of 16."
        ),
    ),
    (
        "dtype:bfloat16",
        lambda: _of(lambda x: x * 2.0, _ones(1 << 24), ns=8e6),
        "Keep tensors in bfloat16",
        (
            "k0 (mul) mostly waits for memory. bfloat16 moves half the bytes, with 2 to 3 digits; "
            "within a kernel arithmetic stays float32."
        ),
    ),
    (
        "accuracy",
        lambda: _of(ops.tanh, _ones(10_000), ns=4000.0),
        'Compile with accuracy="fast"',
        (
            "k0 (tanh) spends more time on arithmetic than on memory. Less accurate, such loops "
            "took 80% of their time when this machine was measured."
        ),
    ),
    (
        "accuracy",
        lambda: _of(
            lambda x: (ops.sum(ops.exp(x), axis=0), ops.tanh(ops.max(x, axis=0))),
            _ones(100, 1000),
            ns=9000.0,
        ),
        'Compile with accuracy="fast"',
        (
            "k0 (max_tanh) and k1 (sum_exp) spend more time on arithmetic than on memory. Less "
            "accurate, such loops took 80% to 90% of their time when this machine was measured."
        ),
    ),
    (
        "batch:rows",
        lambda: _rows(1),
        "Pass 8 inputs in one run: rows = 8 instead of 1",
        (
            "With rows = 1, k0 (matmul_relu) mostly reads weights or is being started, which takes "
            "as long for rows = 8. What is saved is for each of the 8 inputs."
        ),
    ),
    (
        "batch:rows",
        lambda: _rows(2),
        "Pass 8 inputs in one run: rows = 16 instead of 2",
        (
            "With rows = 2, k0 (matmul_relu) mostly reads weights or is being started, which takes "
            "as long for rows = 16. What is saved is for each of the 8 inputs."
        ),
    ),
    (
        "threads:2",
        lambda: _threads(2),
        "Run with 2 threads instead of 1",
        "k0 (exp) has enough to do for 2 threads.",
    ),
    (
        "threads:1",
        lambda: _shared(ops.exp),
        "Run with 1 thread instead of 2",
        "k0 (exp) is so small that sharing it among 2 threads costs more than it saves.",
    ),
    (
        "threads:1",
        lambda: _shared(lambda x: (ops.softmax(x), ops.max(x, axis=0))),
        "Run with 1 thread instead of 2",
        (
            "k0 (softmax) and k1 (max) are so small that sharing them among 2 threads costs more "
            "than it saves."
        ),
    ),
    (
        "layout:k0",
        lambda: _of(lambda x: ops.transpose(x, 0, 1), _ones(64, 32), ns=900.0),
        "Avoid the copy in k0",
        (
            "k0 computes nothing: it lays a value out in another order of axes, because what reads "
            "it, or an output, needs that order. A value that is made in that order needs no copy."
        ),
    ),
    (
        "layout:k0",
        lambda: _of(
            lambda x: ops.sum(ops.transpose(x, 0, 1) * 2.0, axis=-1), _ones(512, 512), ns=1e6
        ),
        "Read memory in order in k0",
        (
            "The innermost loop of k0 jumps over memory: each jump fetches 64 bytes to use one "
            "number of them. It took 47 times as long as its bytes need when they are read in "
            "order."
        ),
    ),
    (
        "cast:k0",
        lambda: _of(lambda x: ops.cast(x, BF16), _ones(64), ns=700.0),
        "Drop the conversion in k0",
        (
            "k0 only converts a value to another dtype, and no other kernel could do it on the "
            "way. A value that has that dtype from the start needs no kernel for it."
        ),
    ),
    (
        "balance:k0",
        lambda: _waiting(1),
        "Give all threads a share of k0",
        (
            "k0 can be shared along an axis of 1 item among 2 threads: one thread has it, and the "
            "others wait."
        ),
    ),
    (
        "balance:k0",
        lambda: _waiting(3),
        "Give all threads a share of k0",
        (
            "k0 can be shared along an axis of 3 items among 2 threads: one thread has 2, where an "
            "equal share is 1.5."
        ),
    ),
    (
        "padding:k1",
        lambda: _of(ops.matmul, _ones(1024, 256), _ones(256, 33), ns=1000.0),
        "Use all columns that k1 computes",
        (
            "Products compute 32 columns at a time, so that for 33 columns 64 are computed. The "
            "prediction is for 32 columns; 64 would take as long as 33 do now."
        ),
    ),
    (
        "unlike:k2",
        lambda: layers(128, 512, 128, 128),
        "Look at k2 and k3: 4 times the work of their equals",
        (
            "k2 (matmul_gelu) and k3 (matmul_add) do 4 times the arithmetic of the 3 others that "
            "the same line writes: k2 multiplies by [64, 512], the others by [64, 128]. If that is "
            "not meant, they would take what the others do."
        ),
    ),
    (
        "unlike:k4",
        lambda: layers(128, 128, 512, 128),
        "Look at k4 and k5: 4 times the work of their equals",
        (
            "k4 (matmul_gelu) and k5 (matmul_add) do 4 times the arithmetic of the 3 others that "
            "the same line writes: k4 multiplies by [64, 512], the others by [64, 128]. If that is "
            "not meant, they would take what the others do."
        ),
    ),
]
"""The id of an action, what it is of, its title, and why, without the places in files."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case[0])
def test_the_words_of_each_action(case: tuple[str, Callable[[], Profile], str, str]) -> None:
    id, make, title, why = case
    machine = _slow_to_share() if id == "threads:1" else made.machine()
    with made.known(machine):
        profile = make()
        known: dict[str, Action] = {a.id: a for a in [*experiments(profile), *advice(profile)]}
    assert known[id].title == title
    assert re.sub(r" \([^()]*:\d+\)", "", known[id].why) == why


def test_every_kind_of_action_has_its_words_here() -> None:
    kinds = {"apart" if id == "fuse:off" else id.split(":")[0] for id, *_ in CASES}
    assert kinds == set(get_args(Kind))


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        (
            (58, 58, 1000, 2000),
            "as many kernels as now, cut elsewhere, and move 2.00 kB instead of 1.00 kB",
        ),
        ((58, 1, 1000, 1000), "1 kernel instead of 58, and move as much: 1.00 kB"),
        ((1, 2, 1000, 1000), "2 kernels instead of 1, and move as much: 1.00 kB"),
        ((1, 2, 100_000, 100_100), "2 kernels instead of 1, and move as much: 100 kB"),
        ((1, 2, 0, 8), "2 kernels instead of 1, and move 8 B instead of 0 B"),
    ],
)
def test_what_does_not_change_is_not_said_twice(
    numbers: tuple[int, int, int, int], words: str
) -> None:
    assert changed_text(*numbers) == words


@pytest.mark.parametrize(
    ("numbers", "words"),
    [
        ((520e3, 0.65, 430e3, 650e3), "saves 520 µs (65%), between 430 µs and 650 µs"),
        ((-2e3, -0.01, -9e3, -1e3), "costs 2.00 µs (1%), between 1.00 µs and 9.00 µs"),
        ((0.0, 0.0, -9e3, 5e3), "may change nothing: between 9.00 µs slower and 5.00 µs faster"),
        ((0.0, 0.0, 0.0, 0.0), "changes nothing"),
        ((None, None, None, None), "no prediction: the machine was busy"),
    ],
)
def test_a_prediction_in_words(numbers: tuple[Any, ...], words: str) -> None:
    withheld = "the machine was busy" if numbers[0] is None else ""
    ns, share, low, high = numbers
    action = Action("a", "hoist", "It", "", (), (), ns, share, low, high, "", withheld=withheld)
    assert action.prediction == words
