"""Advice: what is found in models with something planted in them, and what it is priced at."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.advice import PLANTED, Planted
from maxlab import driver, engine
from maxlab.analysis.advice import Action, action_of, advice, experiments
from maxlab.compiler import Options
from maxlab.config import config, set_config
from maxlab.dtype import DType
from maxlab.engine.profile import Profile
from maxlab.errors import ArgumentError, ArgumentTypeError
from maxlab.graph import DeviceRef, Graph, TensorType, ops
from maxlab.lab.questions import answering
from tests.analysis import ceilings as made
from tests.analysis.test_roofline import BF16, F32, F64, model_of, profile_of


@pytest.fixture(autouse=True)
def ceilings() -> Iterator[None]:
    """The made-up machine, whose ceilings are known, in a session of one thread."""
    old = set_config(replace(config(), num_threads=1))
    with made.known(made.machine()):
        yield
    set_config(old)


def found(profile: Profile) -> dict[str, Action]:
    """Its advice by id."""
    return {action.id: action for action in advice(profile)}


def steady(profile: Profile) -> Profile:
    """The profile, had all of its runs taken what the median one did."""
    profile.wall_samples_ns = np.full(8, profile.wall_ns)
    profile.kernel_samples_ns = np.tile([k.ns for k in profile.kernels], (8, 1))
    return profile


def saved(action: Action) -> float:
    """What it is predicted to save."""
    assert action.predicted_ns is not None, action.withheld
    return action.predicted_ns


# ---------------------------------------------------------------- planted
@pytest.mark.parametrize("case", PLANTED, ids=lambda c: c.action)
def test_what_is_planted_is_found(case: Planted) -> None:
    model, inputs = case.make(4)
    profile = steady(model.profile(*inputs, runs=5))
    action = found(profile)[case.action]
    assert action.can_try
    assert action.low_ns is not None
    assert action.high_ns is not None
    assert 0 < action.low_ns < saved(action) < action.high_ns <= profile.kernel_ns
    assert action.predicted_share == pytest.approx(saved(action) / profile.kernel_ns)
    assert set(action.kernels) <= {k.id for k in profile.kernels}
    assert action.nodes
    assert action.title
    assert action.how


def test_nothing_is_advised_where_nothing_is_to_gain() -> None:
    model = model_of(lambda x: x + 1.0, (F32, [1 << 16]))
    actions = advice(profile_of(model, np.ones(1 << 16, np.float32), ns=1e4))
    assert actions == []
    assert "nothing" in repr(actions)


def test_the_largest_saving_comes_first() -> None:
    def build(x: Any, w: Any) -> Any:
        return ops.matmul(x, w), ops.transpose(ops.exp(x), 0, 1)

    model = model_of(build, (F32, [64, 96]), (F32, [96, 32]))
    profile = profile_of(
        model, np.ones((64, 96), np.float32), np.ones((96, 32), np.float32), ns=1000.0
    )
    savings = [saved(action) for action in advice(profile)]
    assert len(savings) > 1
    assert savings == sorted(savings, reverse=True)


# ---------------------------------------------------------------- prices
def test_hoisting_saves_what_was_measured() -> None:
    model, inputs = PLANTED[0].make(4)
    profile = profile_of(model, *inputs, ns=1000.0)
    action = found(profile)["hoist"]
    assert action.predicted_ns == 1000.0 * len(action.kernels)
    assert len(action.kernels) == len(profile.kernels) - 1  # all but the product
    product = next(k for k in profile.kernels if k.kind == "contract")
    assert product.id not in action.kernels
    assert not set(action.nodes) & {
        op.id for op in model.compiled.source.ops if "matmul" in op.name
    }


def test_freezing_saves_the_packing() -> None:
    model, inputs = PLANTED[1].make(4)
    profile = profile_of(model, *inputs, ns=1000.0)
    action = found(profile)["freeze:1"]
    assert action.kernels == tuple(k.id for k in profile.kernels if k.kind == "pack")
    assert action.predicted_ns == 1000.0
    assert "input1" in action.title


def test_an_input_of_any_size_can_only_be_named() -> None:
    model = model_of(ops.matmul, (F32, ["m", 64]), (F32, [64, "n"]))
    profile = profile_of(
        model, np.ones((8, 64), np.float32), np.ones((64, 32), np.float32), ns=500.0
    )
    action = found(profile)["freeze:1"]
    assert not action.can_try
    assert "have to be numbers" in action.why


def test_fusion_saves_the_bytes_between_kernels() -> None:
    count = 1 << 24
    kind = TensorType(F32, [count])
    with Graph("chain", input_types=[kind]) as graph:
        x = graph.inputs[0].tensor
        for _ in range(4):
            x = x * 1.5
        graph.output(x)
    session = engine.InferenceSession(num_threads=1)
    model = session.load(graph, options=Options(fuse=False))
    each = 8 * count / 16 + 30  # a copy from DRAM, and a start: as estimated
    profile = profile_of(model, np.ones(count, np.float32), ns=each)
    action = found(profile)["fuse"]
    assert action.predicted_ns == pytest.approx(3 * each, rel=0.01)
    assert action.nodes
    assert model.reload(options=Options()).plan.steps[0].nbytes.evaluate({}) == 8 * count


def test_float32_halves_the_bytes() -> None:
    count = 1 << 24
    model = model_of(lambda x: x * 2.0, (F64, [count]))
    before = 16 * count / 16
    profile = profile_of(model, np.ones(count), ns=before + 30)
    assert found(profile)["dtype:float32"].predicted_ns == pytest.approx(before / 2, rel=0.01)


def test_float32_products_are_at_the_rate_of_float32() -> None:
    model = model_of(ops.matmul, (F64, [256, 256]), (F64, [256, 256]))
    x = np.ones((256, 256))
    flops = 2 * 256**3
    profile = profile_of(model, x, x, ns=flops / 20 + 30)
    assert found(profile)["dtype:float32"].predicted_ns == pytest.approx(
        flops / 20 - flops / 90, rel=0.01
    )


def test_bfloat16_is_for_streams_alone() -> None:
    count = 1 << 24
    x = np.ones(count, np.float32)
    stream = profile_of(model_of(lambda x: x * 2.0, (F32, [count])), x, ns=8 * count / 16 + 30)
    assert found(stream)["dtype:bfloat16"].predicted_ns == pytest.approx(4 * count / 16, rel=0.01)

    def with_product(x: Any, w: Any) -> Any:
        return x * 2.0, ops.matmul(w, w)

    mixed = model_of(with_product, (F32, [count]), (F32, [64, 64]))
    profile = profile_of(mixed, x, np.ones((64, 64), np.float32), ns=8 * count / 16)
    assert "dtype:bfloat16" not in found(profile)


def test_less_accuracy_saves_what_it_saved_of_such_loops() -> None:
    model = model_of(ops.tanh, (F32, [10_000]))
    profile = profile_of(model, np.ones(10_000, np.float32), ns=4000.0)
    action = found(profile)["accuracy"]
    assert action.predicted_ns == pytest.approx(0.2 * 8 * 10_000 / 25)
    assert action.changes == "rounding"
    fast = model.reload(options=Options(accuracy="fast"))
    assert "accuracy" not in found(profile_of(fast, np.ones(10_000, np.float32), ns=4000.0))


def test_a_batch_shares_the_weights() -> None:
    model, _ = PLANTED[4].make(4)  # one row of 512, times 512 x 2048
    nbytes = 4 * (512 + 512 * 2048 + 2048)
    (kernel,) = model.plan.steps
    assert kernel.nbytes.evaluate({"rows": 1}) == nbytes
    profile = profile_of(model, np.ones((1, 512), np.float32), ns=nbytes / 50)
    action = found(profile)["batch:rows"]
    # with eight rows the arithmetic takes longer than the weights, an eighth of it for each
    assert action.predicted_ns == pytest.approx(nbytes / 50 - 2 * 512 * 2048 / 90, rel=0.01)
    assert action.recipe is not None
    assert action.recipe.repeat == ("rows", 8)


def test_no_batch_where_results_are_of_all_rows_together() -> None:
    def build(x: Any) -> Any:
        w = ops.constant(np.ones((512, 512), np.float32), F32)
        return ops.matmul(x, w), ops.sum(x, axis=0)

    model = model_of(build, (F32, ["rows", 512]))
    profile = profile_of(model, np.ones((1, 512), np.float32), ns=5e4)
    assert "batch:rows" not in found(profile)


def test_more_threads_are_worth_what_the_ceilings_are() -> None:
    set_config(replace(config(), num_threads=2))
    model = model_of(ops.exp, (F32, [1 << 16]))
    ns = 8 * (1 << 16) / 25
    action = found(profile_of(model, np.ones(1 << 16, np.float32), ns=ns))["threads:2"]
    # half the time, less what sharing a step costs
    assert action.predicted_ns == pytest.approx(ns / 2 - 100, rel=0.01)
    small = model_of(ops.exp, (F32, [16]))
    assert "threads:2" not in found(profile_of(small, np.ones(16, np.float32), ns=100.0))


# ---------------------------------------------------------------- what only a user can change
def test_a_copy_is_named_with_its_line() -> None:
    model = model_of(lambda x: ops.transpose(x, 0, 1), (F32, [64, 32]))
    action = found(profile_of(model, np.ones((64, 32), np.float32), ns=900.0))["layout:k0"]
    assert (action.predicted_ns, action.can_try) == (900.0, False)
    assert "test_advice.py" in action.why


def test_reading_across_memory_is_named() -> None:
    def build(x: Any) -> Any:
        return ops.sum(ops.transpose(x, 0, 1) * 2.0, axis=-1)

    model = model_of(build, (F32, [512, 512]))
    slow = profile_of(model, np.ones((512, 512), np.float32), ns=1e6)
    action = found(slow)["layout:k0"]
    assert "jumps over memory" in action.why
    assert 9e5 < saved(action) < 1e6
    quick = profile_of(model, np.ones((512, 512), np.float32), ns=1e4)
    assert "layout:k0" not in found(quick)


def test_a_cast_alone_is_named() -> None:
    model = model_of(lambda x: ops.cast(x, BF16), (F32, [64]))
    action = found(profile_of(model, np.ones(64, np.float32), ns=700.0))["cast:k0"]
    assert action.predicted_ns == 700.0


def test_threads_that_wait_are_named() -> None:
    def waiting(rows: int) -> dict[str, Action]:
        model = model_of(ops.softmax, (F32, ["rows", 1 << 14]), threads=2)
        profile = profile_of(model, np.ones((rows, 1 << 14), np.float32), ns=400.0)
        first = profile.kernels[0]
        profile.kernels = [replace(first, busy_ns=(400.0, 0.0), imbalance=0.5)]
        return found(profile)

    action = waiting(1)["balance:k0"]
    assert (action.predicted_ns, action.can_try) == (200.0, False)
    assert waiting(3)["balance:k0"].predicted_ns == pytest.approx(100.0)  # 2 of 3 rows, for 1.5
    # With items enough, threads wait for the machine, and no change of the graph helps.
    assert "balance:k0" not in waiting(64)


def test_columns_for_nothing_are_named() -> None:
    def build(x: Any, w: Any) -> Any:
        return ops.matmul(x, w)

    model = model_of(build, (F32, [1024, 256]), (F32, [256, 33]))
    profile = profile_of(
        model, np.ones((1024, 256), np.float32), np.ones((256, 33), np.float32), ns=1000.0
    )
    product = next(k for k in profile.kernels if k.kind == "contract")
    action = found(profile)[f"padding:{product.id}"]
    assert action.predicted_ns == 500.0  # 64 columns are computed, 32 would do
    assert "33 columns" in action.why


# ---------------------------------------------------------------- experiments and answers
def test_what_would_change_no_kernel_is_not_offered() -> None:
    """A model of one op has the same kernel with and without fusion."""
    model = model_of(ops.tanh, (F32, [1 << 10]))
    node = next(op.id for op in model.compiled.source.ops if op.name == "mo.tanh")
    profile = profile_of(model, np.ones(1 << 10, np.float32))
    assert {action.kind for action in experiments(profile, [node])}.isdisjoint({"apart", "fuse"})
    apart = model.reload(options=Options(fuse=False))
    assert "fuse" not in {
        action.id for action in experiments(profile_of(apart, np.ones(1024, "f4")))
    }


def test_experiments_are_there_whatever_they_cost() -> None:
    model = model_of(lambda x: ops.tanh(x * 2.0) + 1.0, (F32, [1 << 20]))
    nodes = [op.id for op in model.compiled.source.ops if op.name == "mo.tanh"]
    profile = profile_of(model, np.ones(1 << 20, np.float32), ns=4e5)
    actions = {action.id: action for action in experiments(profile, nodes)}
    off, apart = actions["fuse:off"], actions[f"apart:{nodes[0]}"]
    assert saved(off) < 0
    assert saved(apart) < 0
    assert off.recipe is not None
    assert off.recipe.options == Options(fuse=False)
    assert apart.recipe is not None
    assert apart.recipe.options == Options(apart=nodes)
    assert (
        "the model would have 3 kernels instead of 1, and move 25.2 mb instead of 8.39 mb"
        in off.why.lower()
    )
    assert f"apart={nodes}" in apart.how
    back = model.reload(options=Options(fuse=False))
    assert "fuse" in {a.id for a in experiments(profile_of(back, np.ones(1 << 20, np.float32)))}


def test_the_code_of_options_runs() -> None:
    model = model_of(lambda x: ops.tanh(x * 2.0) + 1.0, (F32, [64]))
    profile = profile_of(model, np.ones(64, np.float32))
    nodes = [op.id for op in model.compiled.source.ops if op.name in ("mo.tanh", "mo.add")]
    for action in experiments(profile, nodes):
        if action.recipe is None or action.recipe.options is None:
            continue
        names: dict[str, Any] = {"model": model}
        exec(action.how, names)
        assert names["model"].options == action.recipe.options


def test_the_code_that_hoists_runs() -> None:
    model, inputs = PLANTED[0].make(4)
    profile = profile_of(model, *inputs)
    names: dict[str, Any] = {"model": model, "session": engine.InferenceSession(num_threads=1)}
    exec(found(profile)["hoist"].how, names)
    (y,), (wanted,) = names["model"].execute(*inputs), model.execute(*inputs)
    assert np.array_equal(y.to_numpy(), wanted.to_numpy())


def test_an_action_is_found_by_its_id() -> None:
    model = model_of(lambda x: ops.tanh(x + 1.0), (F32, [64]))
    profile = profile_of(model, np.ones(64, np.float32))
    assert action_of(profile, "fuse:off").id == "fuse:off"
    with pytest.raises(ArgumentError, match="ML673"):
        action_of(profile, "fuse:sideways")
    with pytest.raises(ArgumentError, match="ML673"):
        action_of(profile, "apart:n99")


def test_answers_are_plain_json() -> None:
    model, inputs = PLANTED[1].make(8)
    profile = model.profile(*inputs, runs=2)
    data = answering.answer(profile, "advice", {}).data
    assert data["version"] == 2
    assert "freeze:1" in [action["id"] for action in data["actions"]]
    assert answering.answers_to_save(profile)["advice"] == data
    asked = answering.answer(profile, "experiments", {"nodes": ["n0"]}).data
    json.dumps([data, asked], allow_nan=False)
    with pytest.raises(ArgumentError, match="ML862"):
        answering.answer(profile, "experiments", {"nodes": "n0"})


def test_nothing_is_saved_where_that_would_measure() -> None:
    model = model_of(lambda x: x + 1.0, (F32, [64]))
    profile = profile_of(model, np.ones(64, np.float32))
    with made.known(None):
        assert "advice" not in answering.answers_to_save(profile)
        with pytest.raises(LookupError):
            advice(profile, measure=False)


def test_advice_is_for_profiles_of_the_cpu() -> None:
    model = model_of(lambda x: x + 1.0, (F32, [64]))
    wrong: Any = model
    with pytest.raises(ArgumentTypeError, match="ML671"):
        advice(wrong)
    with driver.simulated():
        kind = TensorType(DType.float32, ["n"], DeviceRef.GPU())
        with Graph("f", input_types=[kind]) as graph:
            graph.output(graph.inputs[0].tensor * 2.0)
        device = driver.Accelerator()
        gpu = engine.InferenceSession(devices=[device]).load(graph)
        x = driver.Tensor.from_numpy(np.ones(64, np.float32)).to(device)
        profile = gpu.profile(x, runs=1)
        with pytest.raises(ArgumentError, match="ML672"):
            advice(profile)
        assert "advice" not in answering.answers_to_save(profile)


def test_the_text_has_a_number_and_the_code_for_each() -> None:
    model, inputs = PLANTED[1].make(8)
    actions = advice(steady(model.profile(*inputs, runs=2)))
    text = actions.table()
    assert actions.action(actions[0].id) is actions[0]
    with pytest.raises(KeyError):
        actions.action("other")
    assert text.startswith("1. ")
    assert all(action.title in text for action in actions)
    assert "weights_registry" in text
