"""Whole modules of torch: what becomes of their weights, lines, scopes, sizes, arguments and
outputs; and what maxlab says of those it cannot import."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from typing import Any

import numpy as np
import pytest

import maxlab
from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import Graph, TensorType

pytestmark = pytest.mark.oracle
pytest.importorskip("torch", reason="torch not installed; scripts/test --oracle installs it")

import torch  # noqa: E402 - where it is installed
from torch import nn  # noqa: E402

from maxlab.torch import TorchProfile, load  # noqa: E402 - needs torch
from maxlab.torch.aten import TABLE  # noqa: E402 - needs torch


class Block(nn.Module):
    """A decoder block: causal attention and a gated product, each added to its input."""

    def __init__(self, width: int = 32, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.norm = nn.RMSNorm(width)
        self.qkv = nn.Linear(width, 3 * width, bias=False)
        self.out = nn.Linear(width, width, bias=False)
        self.gate = nn.Linear(width, 2 * width)
        self.down = nn.Linear(width, width)

    def attend(self, x: Any) -> Any:
        batch, seq, width = x.shape
        q, k, v = self.qkv(x).view(batch, seq, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        made = nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(made.transpose(1, 2).reshape(batch, seq, width))

    def forward(self, x: Any) -> Any:
        x = x + self.attend(self.norm(x))
        gate, up = self.gate(x).chunk(2, -1)
        return x + self.down(nn.functional.silu(gate) * up)


class Net(nn.Module):
    """Two convolutions, which torch runs, and a product, which maxlab runs."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 8, 3, padding=1)
        self.norm = nn.BatchNorm2d(8)
        self.second = nn.Conv2d(8, 4, 3, stride=2)
        self.head = nn.Linear(36, 10)

    def forward(self, x: Any) -> Any:
        x = torch.relu(self.norm(self.first(x)))
        x = torch.relu(self.second(x))
        return {"logits": self.head(x.flatten(1)), "features": (x, None, 3)}


def blocks() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(Block(), Block()).eval()


def net() -> Any:
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture(autouse=True)
def _without_convolutions(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if maxlab had no convolutions, so that torch has something to run."""
    monkeypatch.delitem(TABLE, "convolution.default")


# ---------------------------------------------------------------- what comes out is right
def test_a_decoder_is_all_maxlab() -> None:
    module, x = blocks(), torch.randn(2, 6, 32)
    model = load(module, x)
    assert {row.by for row in model.coverage} == {"maxlab"}
    assert sum(k.kind == "attention" for k in model.model.kernels.values()) == 2
    torch.testing.assert_close(model(x), module(x), rtol=1e-4, atol=1e-5)


def test_a_net_is_shared_with_torch() -> None:
    module, x = net(), torch.randn(2, 3, 8, 8)
    model = load(module, x)
    assert {row.name: row.count for row in model.coverage if row.by == "torch"} == {
        "aten.convolution": 2
    }
    ours, theirs = model(x), module(x)
    assert set(ours) == {"logits", "features"}
    torch.testing.assert_close(ours["logits"], theirs["logits"])
    torch.testing.assert_close(ours["features"][0], theirs["features"][0])
    assert ours["features"][1:] == (None, 3)
    steps = [k for k in model.model.kernels.values() if k.kind == "torch"]
    assert [k.name for k in steps] == ["torch.convolution"] * 2
    assert "torch ran this" in steps[0].source
    assert "torch.ops.aten.convolution.default(x, p_first_weight" in steps[0].source
    # 2 images, 8 channels out, 8×8 pixels, 3 channels in, 3×3 taps, a product and a sum each
    assert steps[0].flops.evaluate({}) == 2 * 8 * 64 * 27 * 2


def test_each_call_sees_its_own_inputs() -> None:
    module = net()
    model = load(module, torch.randn(2, 3, 8, 8))
    for _ in range(5):
        x = torch.randn(2, 3, 8, 8)
        torch.testing.assert_close(model(x)["logits"], module(x)["logits"])
    inputs = [torch.randn(2, 3, 8, 8) for _ in range(4)]
    made = [model(x)["logits"] for x in inputs]  # results do not share memory
    for x, got in zip(inputs, made, strict=True):
        torch.testing.assert_close(got, module(x)["logits"])


@pytest.mark.parametrize("batch", [1, 2, 5])
def test_one_graph_for_every_batch(batch: int) -> None:
    module = net()
    model = load(module, torch.randn(3, 3, 8, 8), dynamic_batch=True)
    assert [str(p) for p in model.graph.parameters] == ["batch"]
    x = torch.randn(batch, 3, 8, 8)
    torch.testing.assert_close(model(x)["logits"], module(x)["logits"])


def test_named_sizes_are_named() -> None:
    module = blocks()
    sizes = {0: torch.export.Dim("batch"), 1: torch.export.Dim("seq", min=2, max=64)}
    model = load(module, torch.randn(2, 6, 32), dynamic_shapes=(sizes,))
    assert {str(p) for p in model.graph.parameters} == {"batch", "seq"}
    for shape in ((1, 5, 32), (3, 17, 32)):
        x = torch.randn(*shape)
        torch.testing.assert_close(model(x), module(x), rtol=1e-4, atol=1e-5)


def test_sizes_that_torch_needs_reach_it() -> None:
    class Sized(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.topk(x, x.shape[0] - 1, 0)[0] * 2

    module = Sized()
    rows = torch.export.Dim("rows", min=3, max=50)
    model = load(module, torch.randn(5, 8), dynamic_shapes=({0: rows},))
    assert any(row.by == "torch" for row in model.coverage)
    for rows in (3, 9):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(model(x), module(x))
    for rows in (2, 51):  # the code may take another path there
        with pytest.raises(MaxlabError, match=f"rows = {rows} is outside of 3 to 50") as caught:
            model(torch.randn(rows, 8))
        assert caught.value.code == "ML687"


def test_tensors_of_data_dependent_size_stay_in_torch() -> None:
    class Masked(nn.Module):
        def forward(self, x: Any) -> Any:
            picked = x[x > 0]  # as many as there are
            return torch.exp(x) + picked.sum(), x * 2

    module, x = Masked(), torch.randn(4, 8)
    model = load(module, x)
    (step,) = [k for k in model.model.kernels.values() if k.kind == "torch"]
    assert step.name == "torch.index + sum"  # one part, with what reads it
    for made, wanted in zip(model(x), module(x), strict=True):
        torch.testing.assert_close(made, wanted)


def test_a_branch_of_torch_is_a_step() -> None:
    class Branch(nn.Module):
        def forward(self, x: Any) -> Any:
            y = torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos() - 1, (x,))
            return y * 2

    module = Branch()
    model = load(module, torch.ones(4))
    for x in (torch.ones(4), -torch.ones(4)):
        torch.testing.assert_close(model(x), module(x))


def test_constants_of_the_code_are_constants() -> None:
    class Scaled(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.large = torch.arange(100.0)
            self.waves = torch.polar(torch.ones(4), torch.arange(4.0))  # complex: torch's own

        def forward(self, x: Any) -> Any:
            turned = torch.view_as_real(torch.view_as_complex(x.view(4, 2)) * self.waves)
            return x * torch.tensor([2.0]) + self.large[:8], turned

    module, x = Scaled(), torch.randn(8)
    model = load(module, x)
    for made, wanted in zip(model(x), module(x), strict=True):
        torch.testing.assert_close(made, wanted)


def test_arguments_by_name_numbers_and_none() -> None:
    class Many(nn.Module):
        def forward(
            self, x: Any, pair: Any, *, scale: float = 1.0, mask: Any = None, how: str = "sum"
        ) -> Any:
            y = (x + pair["a"] * pair["b"][0]) * scale
            return (y.sum() if how == "sum" else y.mean()) if mask is None else y * mask

    module = Many()
    x, pair = torch.randn(3), {"a": torch.randn(3), "b": [torch.randn(3)]}
    model = load(module, x, pair, scale=2.0, how="mean")
    torch.testing.assert_close(
        model(x, pair, scale=2.0, how="mean"), module(x, pair, scale=2.0, how="mean")
    )
    with pytest.raises(MaxlabError, match="scale = 2.0, got 3.0") as caught:
        model(x, pair, scale=3.0, how="mean")
    assert caught.value.code == "ML687"
    with pytest.raises(MaxlabError, match="was imported for the arguments") as caught:
        model(x, pair)
    assert caught.value.code == "ML687"


def test_wrong_tensors_are_refused() -> None:
    model = load(nn.Linear(4, 3), torch.randn(2, 4))
    with pytest.raises(MaxlabError) as caught:
        model(torch.randn(5, 4))
    assert caught.value.code == "ML602"
    with pytest.raises(MaxlabError) as caught:
        model(torch.randn(2, 4).double())
    assert caught.value.code == "ML609"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_other_dtypes(dtype: str) -> None:
    kind = getattr(torch, dtype)
    torch.manual_seed(1)
    module = nn.Sequential(nn.Linear(16, 32), nn.GELU(), nn.LayerNorm(32)).to(kind).eval()
    x = torch.randn(4, 16).to(kind)
    model = load(module, x)
    close = {"rtol": 1e-7, "atol": 1e-9} if dtype == "float64" else {"rtol": 3e-2, "atol": 3e-2}
    torch.testing.assert_close(model(x), module(x), **close)


def test_layouts_of_inputs_and_weights() -> None:
    module = nn.Linear(6, 4).eval()
    module.weight.data = torch.randn(6, 4).t()  # strided: copied once, when it is loaded
    x = torch.randn(6, 3).t()
    torch.testing.assert_close(load(module, x)(x), module(x))


# ---------------------------------------------------------------- weights
def test_weights_are_the_modules_own_memory() -> None:
    module = net()
    model = load(module, torch.randn(2, 3, 8, 8))
    for name in ("first.weight", "second.bias", "norm.running_mean"):
        data = module.get_parameter(name) if "running" not in name else module.get_buffer(name)
        assert model.model.weights[name].address == data.data_ptr()
    read = {slot.name: slot for slot in model.model.plan.slots if slot.kind == "weight"}
    for name in ("first.weight", "second.bias"):  # what the norm reads is computed at load
        address = model.model.prepared.addresses[read[name].number]
        assert address == module.get_parameter(name).data_ptr()


def test_a_weight_used_twice_is_one() -> None:
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(11, 8)
            self.head = nn.Linear(8, 11, bias=False)
            self.head.weight = self.table.weight

        def forward(self, ids: Any) -> Any:
            return self.head(self.table(ids))

    module, ids = Tied().eval(), torch.tensor([[1, 4, 2]])
    model = load(module, ids)
    data = [op for op in model.graph.function.ops if op.name == "mo.constant.external"]
    assert len(data) == 1
    torch.testing.assert_close(model(ids), module(ids))


def test_a_dropped_model_lets_go_of_its_module() -> None:
    module = net()
    model = load(module, torch.randn(2, 3, 8, 8))
    model(torch.randn(2, 3, 8, 8))
    gone = weakref.ref(model.model)
    del model
    gc.collect()
    assert gone() is None


# ---------------------------------------------------------------- what a reader sees
def test_ops_know_their_line_and_their_module() -> None:
    model = load(blocks(), torch.randn(2, 6, 32))
    products = [op for op in model.graph.function.ops if op.name == "mo.matmul"]
    first = products[0]
    assert first.scope == "0.qkv"
    assert first.loc is not None
    assert first.loc.file.endswith("test_modules.py")
    assert "self.qkv(x).view" in first.loc.text
    assert first.loc.function == "attend"
    assert model.graph.scope_types["0"] == "Block"
    assert model.graph.scope_types["1.down"] == "Linear"
    places = {op.loc.file for op in model.graph.function.ops if op.loc is not None}
    assert all("torch/nn" not in place for place in places)


def test_the_document_says_what_torch_ran() -> None:
    from maxlab.lab.snapshot import take

    model = load(net(), torch.randn(2, 3, 8, 8))
    document = take(model.profile(torch.randn(2, 3, 8, 8), runs=2)).document
    node = next(n for n in document["nodes"] if n["op"] == "torch.convolution")
    assert node["attrs"] == {"run by": "torch"}
    assert node["scope"] == "first"
    assert node["source"] is not None
    assert "self.first(x)" in node["source"]["text"]
    kernel = next(k for k in document["kernels"] if node["id"] in k["nodes"])
    assert (kernel["kind"], kernel["language"]) == ("torch", "python")
    assert kernel["symbol"] == "torch.convolution"
    assert document["profile"] is not None
    assert {k["id"] for k in document["profile"]["kernels"]} == {
        k["id"] for k in document["kernels"]
    }
    json.dumps(document)


def test_a_profile_has_torch_beside_it() -> None:
    x = torch.randn(2, 3, 8, 8)
    profile = maxlab.profile(net(), x, runs=4)
    assert isinstance(profile, TorchProfile)
    assert profile.eager.ns >= profile.eager.ns_min > 0
    assert profile.eager.runs == 4
    assert profile.agreement.ok
    assert profile.agreement.elements == 2 * 10 + 2 * 4 * 9
    assert 0 < profile.torch_share < 1
    text = profile.table()
    assert "torch itself" in text
    assert "the outputs agree with torch" in text
    assert "aten.convolution ×2: maxlab has no such operation yet" in text
    assert profile.source.model.last_profile is profile
    assert "torch ran" not in maxlab.profile(blocks(), torch.randn(2, 6, 32), runs=1).table()


def test_an_output_that_differs_is_told() -> None:
    model = load(nn.Linear(4, 3).eval(), torch.randn(2, 4))
    model.module.weight.data.mul_(2)  # which nobody counts: the model still has the old one
    found = model.check(torch.ones(2, 4))
    assert not found.ok
    assert "DIFFER" in str(found)
    assert found.largest > 0


def test_random_numbers_are_not_compared() -> None:
    class Noise(nn.Module):
        def forward(self, x: Any) -> Any:
            return x + torch.rand_like(x)

    model = load(Noise(), torch.zeros(1000))
    one, other = model(torch.zeros(1000)), model(torch.zeros(1000))
    assert not torch.equal(one, other)  # drawn anew in every run
    found = model.check(torch.zeros(1000))
    assert found.why_not
    assert "random" in str(found)


def test_dropout_while_training_draws() -> None:
    model = load(nn.Sequential(nn.Linear(8, 64), nn.Dropout(0.5)).train(), torch.ones(4, 8))
    zeros = (model(torch.ones(4, 8)) == 0).float().mean()
    assert 0.2 < float(zeros) < 0.8
    assert model.check(torch.ones(4, 8)).why_not


# ---------------------------------------------------------------- the front door
def test_a_graph_and_a_model_are_profiled_too() -> None:
    with Graph("double", input_types=[TensorType(DType.float32, ["n"])]) as graph:
        graph.output(graph.inputs[0].tensor * 2)
    x = np.ones(100, np.float32)
    assert maxlab.profile(graph, x, runs=2).dims == {"n": 100}
    assert maxlab.profile(graph, input0=x, runs=2).runs == 2
    model = engine.InferenceSession(num_threads=1).load(graph)
    assert maxlab.profile(model, x, runs=2).model is model
    imported = load(nn.Linear(4, 3), torch.ones(2, 4))
    assert isinstance(maxlab.profile(imported, torch.ones(2, 4), runs=1), TorchProfile)


def test_what_is_none_of_these_is_refused() -> None:
    for target, options in (
        (torch.relu, {}),
        (nn.Linear(2, 2), {"weights_registry": {}}),
        (load(nn.Linear(2, 2), torch.ones(1, 2)).model, {"dynamic_batch": True}),
        (load(nn.Linear(2, 2), torch.ones(1, 2)).model, {"num_threads": 2}),
    ):
        with pytest.raises(MaxlabError) as caught:
            maxlab.profile(target, torch.ones(1, 2), **options)
        assert caught.value.code == "ML684"


def test_the_front_door_imports_no_torch() -> None:
    program = (
        "import sys, numpy, maxlab, maxlab.torch\n"
        "maxlab.profile\n"
        "assert 'torch' not in sys.modules and maxlab.torch.load\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


# ---------------------------------------------------------------- what cannot be imported
def refused(module: Any, *inputs: Any, **options: Any) -> MaxlabError:
    with pytest.raises(MaxlabError) as caught:
        load(module, *inputs, **options)
    return caught.value


def test_a_module_without_an_example_of_its_inputs() -> None:
    for call in (load, maxlab.profile):
        with pytest.raises(MaxlabError) as caught:
            call(nn.Linear(4, 4))
        assert caught.value.code == "ML684"
        assert "input" in caught.value.what
        assert "(module, x)" in str(caught.value.fix)


def test_a_module_that_takes_nothing_needs_no_example() -> None:
    class Four(nn.Module):
        def forward(self, times: int = 1) -> Any:
            return torch.full((2,), 4.0)

    assert load(Four())().tolist() == [4.0, 4.0]


def test_a_path_that_depends_on_data() -> None:
    class Steps(nn.Module):
        def forward(self, x: Any) -> Any:
            if x.sum() > 0:
                return x + 1
            return x - 1

    error = refused(Steps(), torch.ones(3))
    assert error.code == "ML680"
    assert error.at is not None
    assert "if x.sum() > 0" in error.at.text
    assert "torch.where or torch.cond" in str(error.fix)


def test_a_size_that_the_code_fixes() -> None:
    class Fixed(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.view(3, 4) * 2

    error = refused(Fixed(), torch.ones(3, 4), dynamic_batch=True)
    assert error.code == "ML680"
    assert "dynamic_shapes" in str(error.fix)
    assert any("batch" in reason for reason in error.why)


def test_errors_of_the_module_itself_are_its_own() -> None:
    with pytest.raises(RuntimeError, match="mat1 and mat2") as caught:
        load(nn.Linear(4, 3), torch.ones(2, 5))
    assert not isinstance(caught.value, MaxlabError)


def test_buffers_that_are_written() -> None:
    error = refused(nn.BatchNorm1d(4).train(), torch.randn(5, 4))
    assert error.code == "ML686"
    assert "running_mean" in error.what
    assert "eval()" in str(error.fix)


def test_outputs_of_data_dependent_size() -> None:
    class Picked(nn.Module):
        def forward(self, x: Any) -> Any:
            return x[x > 0]

    error = refused(Picked(), torch.randn(6))
    assert error.code == "ML681"
    assert "depends on data" in error.what
    assert error.at is not None
    assert "x[x > 0]" in error.at.text


def test_complex_inputs() -> None:
    class Real(nn.Module):
        def forward(self, x: Any) -> Any:
            return x.real * 2

    error = refused(Real(), torch.ones(3, dtype=torch.complex64))
    assert error.code == "ML681"
    assert "complex64" in error.what


def test_other_devices() -> None:
    error = refused(nn.Linear(4, 3, device="meta"), torch.ones(2, 4))
    assert error.code == "ML682"
    assert "weight of Linear is on meta" in error.what


def test_what_torch_refuses_at_run_time_names_the_line() -> None:
    class Solve(nn.Module):
        def forward(self, x: Any) -> Any:
            return torch.linalg.cholesky(x)

    model = load(Solve(), torch.eye(3))
    torch.testing.assert_close(model(torch.eye(3)), torch.eye(3))
    with pytest.raises(MaxlabError) as caught:
        model(-torch.eye(3))
    assert caught.value.code == "ML685"
    assert caught.value.at is not None
    assert "cholesky" in caught.value.at.text
    torch.testing.assert_close(model(torch.eye(3)), torch.eye(3))
