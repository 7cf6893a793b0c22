"""Weights that change after the import, gradients, derived dims, and tensors that are not dense."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from maxlab.errors import MaxlabError
from tests.answers import assert_typed

pytestmark = pytest.mark.oracle
pytest.importorskip("torch", reason="torch not installed; scripts/test --oracle installs it")

import torch  # noqa: E402
from torch.export import Dim  # noqa: E402

import maxlab.torch  # noqa: E402
from maxlab.torch.held import Held  # noqa: E402


class Layers(torch.nn.Module):
    """A product, a norm and a buffer."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(16, 16)
        self.norm = torch.nn.LayerNorm(16)
        self.shift: torch.Tensor
        self.register_buffer("shift", torch.zeros(16))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(self.linear(x)) + self.shift


X = torch.linspace(-1, 1, 48).reshape(3, 16)


def _in_place(change: Callable[[Layers], Any]) -> Callable[[Layers], None]:
    def act(module: Layers) -> None:
        with torch.no_grad():
            change(module)

    return act


CHANGES: dict[str, Callable[[Layers], Any]] = {
    "weight": _in_place(lambda m: m.linear.weight.mul_(2)),
    "bias": _in_place(lambda m: m.linear.bias.add_(1)),
    "norm": _in_place(lambda m: m.norm.weight.fill_(3)),
    "buffer": _in_place(lambda m: m.shift.add_(1)),
    "another buffer": lambda m: setattr(m, "shift", torch.ones(16)),
    "another parameter": lambda m: setattr(m.norm, "bias", torch.nn.Parameter(torch.ones(16))),
    "other data": lambda m: setattr(m.linear.weight, "data", torch.ones(16, 16)),
    "state dict": lambda m: m.load_state_dict({k: v * 2 for k, v in m.state_dict().items()}),
}


def test_a_weight_that_changed() -> None:
    module = Layers().eval()
    model = maxlab.torch.load(module, X)
    assert torch.allclose(model(X), module(X), atol=1e-4)
    CHANGES["weight"](module)
    with pytest.raises(MaxlabError, match=r"'linear\.weight' of Layers has changed") as caught:
        model(X)
    assert caught.value.code == "ML729"
    assert "load" in str(caught.value.fix)
    again = maxlab.torch.load(module, X)
    assert torch.allclose(again(X), module(X), atol=1e-4)


def test_an_equal_number_in_another_tensor_is_another_tensor() -> None:
    """What changes the new one later is not counted by the old one."""
    module = torch.nn.PReLU(1)
    held = Held(module, ["weight"])
    held.require_unchanged()
    module.weight = torch.nn.Parameter(module.weight.detach().clone())
    with pytest.raises(MaxlabError, match="it is another tensor now"):
        held.require_unchanged()


@pytest.mark.parametrize("what", CHANGES)
def test_each_change_is_seen(what: str) -> None:
    module = Layers()
    held = Held(module, list(module.state_dict()))
    held.require_unchanged()
    module(X).sum().backward()  # which changes gradients alone
    held.require_unchanged()
    CHANGES[what](module)
    with pytest.raises(MaxlabError, match="ML729"):
        held.require_unchanged()


def test_what_is_not_read_may_change() -> None:
    module = Layers()
    held = Held(module, ["linear.weight"])
    with torch.no_grad():
        module.shift += 1
    held.require_unchanged()


def test_a_weight_with_two_names() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Linear(4, 4))
    module[1].weight = module[0].weight
    held = Held(module, ["0.weight"])
    module[1].weight = torch.nn.Parameter(torch.ones(4, 4))
    with pytest.raises(MaxlabError, match=r"1\.weight"):
        held.require_unchanged()


def test_parameters_of_inference_mode_have_no_versions() -> None:
    with torch.inference_mode():
        module = Layers().eval()
        model = maxlab.torch.load(module, X)
        assert torch.allclose(model(X), module(X), atol=1e-4)


def test_an_input_that_requires_gradients() -> None:
    model = maxlab.torch.load(Layers().eval(), X)
    x = X.clone().requires_grad_()
    with pytest.raises(MaxlabError, match="gradient") as caught:
        model(x)
    assert caught.value.code == "ML730"
    assert "detach" in str(caught.value.fix)
    assert "inference_mode" in str(caught.value.fix)
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert not model(x).requires_grad
    model(x.detach())


class Pairs(torch.nn.Module):
    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y.reshape(-1, 2).sum(1)


class Twice(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(0) * x.shape[0]


def test_a_derived_dim() -> None:
    n = Dim("n", min=2, max=64)
    given = torch.ones(4), torch.ones(8)
    model = maxlab.torch.load(Pairs(), *given, dynamic_shapes={"x": {0: n}, "y": {0: 2 * n}})
    for size in (2, 7, 64):
        x, y = torch.rand(size), torch.rand(2 * size)
        assert torch.allclose(model(x, y), Pairs()(x, y))
    for bad in ((torch.ones(6), torch.ones(11)), (torch.ones(65), torch.ones(130))):
        with pytest.raises(MaxlabError):
            model(*bad)


@pytest.mark.parametrize("derived", ["2 * n", "2 * n + 1", "n - 1"])
def test_a_derived_dim_alone(derived: str) -> None:
    """No input has the size n itself: it follows from that of the input."""
    n = Dim("n", min=3, max=64)
    size = eval(derived, {"n": n})
    example = torch.ones(eval(derived, {"n": 5}), 3)
    model = maxlab.torch.load(Twice(), example, dynamic_shapes={"x": {0: size}})
    for number in (3, 10, 64):
        x = torch.rand(eval(derived, {"n": number}), 3)
        assert torch.allclose(model(x), Twice()(x), rtol=1e-4)
    with pytest.raises(MaxlabError):
        model(torch.rand(1, 3))
    if "2" in derived:
        with pytest.raises(MaxlabError):
            model(torch.rand(9 if derived == "2 * n" else 10, 3))


KINDS = {
    "conjugated": "torch.ones(4, dtype=torch.complex64).conj()",
    "meta": "torch.empty(4, device='meta')",
    "quantized": "torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8)",
    "nested": "torch.nested.nested_tensor([torch.ones(4), torch.ones(4)])",
    "jagged": "torch.nested.nested_tensor([torch.ones(4)] * 2, layout=torch.jagged)",
    "sparse": "torch.ones(4).to_sparse()",
    "sparse rows": "torch.ones(2, 2).to_sparse_csr()",
    "mkldnn": "torch.ones(4).to_mkldnn()",
    "gradient": "torch.ones(4, requires_grad=True)",
    "fake": "torch._subclasses.FakeTensorMode().from_tensor(torch.ones(4))",
    "zero": "torch._efficientzerotensor(4)",
    "freed": "freed()",
    "parameter": "torch.nn.Parameter(torch.ones(4))",
}
"""Tensors of torch without memory that can be read as it is."""


def test_tensors_that_are_not_dense() -> None:
    program = """
        import warnings
        warnings.simplefilter("ignore")
        import torch
        from maxlab import engine
        from maxlab.driver import Tensor
        from maxlab.dtype import DType
        from maxlab.graph import Graph, TensorType, Weight, ops
        from tests.torch_import.test_rare_tensors import KINDS

        session = engine.InferenceSession(num_threads=1)
        types = [TensorType(DType.float32, [4])]
        double = session.load(Graph("g", lambda x: x * 2, types))
        weighed = Graph("g", lambda x: x + Weight("w", DType.float32, [4]), types)
        entries = {
            "from_dlpack": Tensor.from_dlpack,
            "input": double,
            "constant": lambda x: Graph("g", lambda: ops.constant(x)),
            "weight": lambda x: session.load(weighed, weights_registry={"w": x}),
        }

        def freed():
            tensor = torch.ones(4)
            tensor.untyped_storage().resize_(0)
            return tensor

        for entry, act in entries.items():
            for name, text in KINDS.items():
                attempt(f"{entry} {name}", act, eval(text))
    """
    assert_typed(program)  # some of them have an address and nothing behind it


def test_a_negated_view_is_read_as_it_is() -> None:
    negated = torch.tensor([1 + 2j], dtype=torch.complex64).conj().imag
    assert negated.is_neg()
    from maxlab.driver import Tensor

    try:
        found = Tensor.from_dlpack(negated).to_numpy().tolist()
    except MaxlabError:
        return
    assert found == [-2.0]


def test_a_subclass_is_a_tensor() -> None:
    from maxlab.driver import Tensor

    kind = type("Sub", (torch.Tensor,), {})
    assert Tensor.from_dlpack(torch.ones(4).as_subclass(kind)).to_numpy().tolist() == [1] * 4
