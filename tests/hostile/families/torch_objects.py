"""Objects of torch: tensors of odd kinds, given to tensors, models and graphs, and modules that are
hard to import. Where torch is missing every case is right, and nothing is tried.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

import maxlab.torch
from maxlab import driver, engine
from maxlab.driver import Tensor
from maxlab.dtype import DType
from maxlab.errors import MaxlabError
from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
from tests.hostile.harness import WEIRD, Case, Family, WrongResultError

_made: dict[str, Any] = {}
"""``torch`` and what is compiled, when there is a torch."""


def _ready() -> None:
    with contextlib.suppress(ImportError):
        import torch
        import torch._dynamo
        import torch._subclasses
        import torch.export

        warnings.simplefilter("ignore")
        torch.set_num_threads(1)
        kinds = [TensorType(DType.float32, [4], DeviceRef.CPU())]
        session = engine.InferenceSession(num_threads=1)
        double = session.load(Graph("double", lambda x: x * 2, kinds))
        double(np.ones(4, np.float32))
        any_size = [TensorType(DType.float32, ["n"], DeviceRef.CPU())]
        linear = torch.nn.Linear(4, 3).eval()
        imported = maxlab.torch.load(linear, torch.ones(2, 4), dynamic_batch=True)
        imported(torch.ones(3, 4))
        _made.update(
            torch=torch, session=session, double=double, linear=linear, imported=imported,
            any=session.load(Graph("any", lambda x: x * 2, any_size)),
            weighed=Graph("g", lambda x: x + Weight("w", DType.float32, [4]), kinds),
        )  # fmt: skip
        _entry("weight", "ones").run(Path("/"))


# ---------------------------------------------------------------- tensors
def _freed(t: Any) -> Any:
    tensor = t.ones(4)
    tensor.untyped_storage().resize_(0)
    return tensor


def _sub(t: Any, **methods: Any) -> Any:
    return t.ones(4).as_subclass(type("Sub", (t.Tensor,), methods))


def _raises(*given: Any, **named: Any) -> Any:
    raise RuntimeError("from the tensor")


def _ones_of(dtype: str, t: Any) -> Any:
    return t.ones(4).to(getattr(t, dtype))


TENSORS: dict[str, Callable[[Any], Any]] = {
    "ones": lambda t: t.ones(4),
    "conjugated": lambda t: t.ones(4, dtype=t.complex64).conj(),
    "complex": lambda t: t.ones(4, dtype=t.complex64),
    "negated": lambda t: t.ones(4, dtype=t.complex64).conj().imag,
    "real": lambda t: t.ones(4, dtype=t.complex64).real,
    "meta": lambda t: t.empty(4, device="meta"),
    "quantized": lambda t: t.quantize_per_tensor(t.ones(4), 0.1, 0, t.qint8),
    "nested": lambda t: t.nested.nested_tensor([t.ones(4), t.ones(4)]),
    "jagged": lambda t: t.nested.nested_tensor([t.ones(4)] * 2, layout=t.jagged),
    "sparse": lambda t: t.ones(4).to_sparse(),
    "sparse rows": lambda t: t.ones(2, 2).to_sparse_csr(),
    "mkldnn": lambda t: t.ones(4).to_mkldnn(),
    "gradient": lambda t: t.ones(4, requires_grad=True),
    "fake": lambda t: t._subclasses.FakeTensorMode().from_tensor(t.ones(4)),
    "zero": lambda t: t._efficientzerotensor(4),
    "freed": _freed,
    "parameter": lambda t: t.nn.Parameter(t.ones(4)),
    "uninitialized": lambda t: t.nn.parameter.UninitializedParameter(),
    "a buffer": lambda t: t.nn.Buffer(t.ones(4)),
    "expanded": lambda t: t.ones(1).expand(4),
    "transposed": lambda t: t.ones(4, 4).T[0],
    "every second": lambda t: t.ones(8)[::2],
    "overlapping": lambda t: t.ones(4).as_strided((4,), (0,)),
    "off by a byte": lambda t: t.zeros(17, dtype=t.uint8)[1:].view(t.uint8).clone().view(t.float32),
    "empty": lambda t: t.ones(0),
    "rank 0": lambda t: t.tensor(1.0),
    "rank 64": lambda t: t.ones([1] * 64),
    "rank 70": lambda t: t.ones(4).reshape([1] * 69 + [4]),
    "no memory": lambda t: t.empty(0, 4),
    "inference": lambda t: _inference(t),  # noqa: PLW0108 - it is defined below
    "subclass": _sub,
    "subclass that raises": lambda t: _sub(t, __dlpack__=_raises),
    "subclass without a device": lambda t: _sub(t, __dlpack_device__=_raises),
    "subclass of another shape": lambda t: _sub(t, shape=property(lambda self: (9, 9))),
    "subclass that is no function": lambda t: _sub(t, __torch_function__=None),
    "dispatch": lambda t: _sub(t, __torch_function__=classmethod(_raises)),
    "masked": lambda t: t.masked.masked_tensor(t.ones(4), t.ones(4, dtype=t.bool)),
    "named": lambda t: t.ones(4, names=["n"]),
    "a storage": lambda t: t.ones(4).untyped_storage(),
    "a size": lambda t: t.ones(4).shape,
    "a dtype": lambda t: t.float32,
    "a device": lambda t: t.device("cpu"),
    "a class": lambda t: t.Tensor,
    "a module": lambda t: t.nn.Linear(2, 2),
    "a generator": lambda t: t.Generator(),
    "a vmap": lambda t: t._C._functorch._add_batch_dim(t.ones(4, 4), 0, 1),
    "shared": lambda t: t.ones(4).share_memory_(),
    "of numpy": lambda t: t.from_numpy(np.ones(4, np.float32)),
    "of maxlab": lambda t: t.from_dlpack(Tensor.from_numpy(np.ones(4, np.float32))),
    "deleted": lambda t: _deleted(t),  # noqa: PLW0108
    **{f"of {name}": partial(_ones_of, name) for name in (
        "float64", "float16", "bfloat16", "int64", "int8", "uint8", "bool", "uint16", "uint64",
        "float8_e4m3fn", "float8_e5m2", "complex128", "complex32")},
    "of bits": lambda t: t.empty(4, dtype=t.bits8),
    "of halves of a byte": lambda t: t.empty(4, dtype=t.uint4),
}  # fmt: skip
"""Tensors of torch, and what only looks like one."""


def _inference(t: Any) -> Any:
    with t.inference_mode():
        return t.ones(4)


def _deleted(t: Any) -> Any:
    tensor = t.ones(4)
    tensor.set_(t.ones(0).untyped_storage(), 0, (0,), (1,))
    return tensor


ENTRIES: dict[str, Callable[[Any], Any]] = {
    "from_dlpack": Tensor.from_dlpack,
    "from_dlpack with a copy": lambda x: Tensor.from_dlpack(x, copy=True),
    "from_numpy": Tensor.from_numpy,
    "input": lambda x: _made["double"](x),  # noqa: PLW0108 - there is none yet
    "input of any size": lambda x: _made["any"](x),  # noqa: PLW0108
    "input by name": lambda x: _made["double"](x=x),
    "constant": lambda x: Graph("g", lambda: ops.constant(x)),
    "constant of a dtype": lambda x: Graph(
        "g", lambda: ops.constant(x, DType.float32, DeviceRef.CPU())
    ),
    "operand": lambda x: Graph("g", lambda y: y + x, [TensorType(DType.float32, [4])]),
    "weight": lambda x: _made["session"].load(_made["weighed"], weights_registry={"w": x}),
    "stored": lambda x: Tensor.zeros([4], DType.float32).__setitem__(slice(None), x),
    "copied from": lambda x: Tensor.zeros([4], DType.float32).inplace_copy_from(x),
    "an index": lambda x: Tensor.zeros([4], DType.float32)[x],
    "a shape": lambda x: Tensor.zeros(x, DType.float32),
    "a dtype": DType.from_numpy,
    "imported": lambda x: _made["imported"](x),  # noqa: PLW0108
    "profiled": lambda x: maxlab.profile(_made["linear"], x, runs=1, warmup=0),
    "a module": lambda x: maxlab.torch.load(x, x),
    "profile": maxlab.profile,
    "a device": lambda x: Tensor.zeros([4], DType.float32).to(x),
    "a stream": driver.DeviceStream,
}
"""Where such a tensor can be passed."""
SLOW = ("profiled",)
OWN = ("profiled", "a module")
"""Where a module is called, whose own errors come out as they are."""


def _entry(entry: str, name: str) -> Case:
    def run(folder: Path) -> None:
        if not _made:
            return
        try:
            tensor = TENSORS[name](_made["torch"])
        except Exception:
            return  # this torch has none of them
        _checked(entry, tensor)

    return Case(f"{entry} <- {name}", run)


def _checked(entry: str, given: Any) -> None:
    torch = _made["torch"]
    try:
        made = ENTRIES[entry](given)
    except MaxlabError as error:
        if not error.fix:
            raise WrongResultError(f"no fix: {error}") from error
        raise
    except Exception as error:
        if entry not in OWN:
            raise
        _require_own(torch, _made["linear"] if entry == "profiled" else given, given, error)
        return
    if isinstance(made, Tensor):
        repr(made)
        if entry.startswith("from") and isinstance(given, torch.Tensor):
            got = np.asarray(made.to_ml_numpy()).astype(np.float64).tolist()
            try:
                want = given.detach().to(torch.float64).tolist()
            except NotImplementedError:  # torch itself has no numbers for these bits
                return
            if got != want:
                raise WrongResultError(f"{got} instead of {want}")


# ---------------------------------------------------------------- modules
def _modules(t: Any) -> dict[str, Callable[..., Any]]:
    """What a module does with its input, by what is odd about it."""

    class Pair(dict[str, Any]):
        pass

    return {
        "itself": lambda m, x: x,
        "nothing": lambda m, x: None,
        "a number": lambda m, x: 3,
        "a text": lambda m, x: "x",
        "a list of lists": lambda m, x: [[x], [x + 1, [x * 2]]],
        "a dict of odd keys": lambda m, x: {1: x, (2, 3): x},
        "an odd dict": lambda m, x: Pair(a=x),
        "a set": lambda m, x: {x.shape[0]},
        "itself twice": lambda m, x: (x, x),
        "a view": lambda m, x: x[0],
        "complex": lambda m, x: t.view_as_complex(x.reshape(-1, 2)),
        "fourier": lambda m, x: t.fft.fft(x).real,
        "sparse": lambda m, x: x.to_sparse(),
        "raises": lambda m, x: _raises(),
        "asserts": lambda m, x: _asserts(x),
        "a branch on values": lambda m, x: x if x.sum() > 0 else -x,
        "a size of values": lambda m, x: t.nonzero(x),
        "items": lambda m, x: x * x.sum().item(),
        "writes to its input": lambda m, x: x.add_(1),
        "writes to its buffer": lambda m, x: m.kept.add_(x),
        "writes to its weight": lambda m, x: m.weight.data.add_(x),
        "writes to an attribute": _seen,
        "random": lambda m, x: x + t.rand(4),
        "dropout": lambda m, x: t.nn.functional.dropout(x, 0.5, True),
        "no elements": lambda m, x: x[:0],
        "numpy": lambda m, x: t.from_numpy(x.detach().numpy() * 2),
        "a large constant": lambda m, x: x + 1e308,
        "a wild index": lambda m, x: x[..., t.tensor([0, 99])],
        "a division by zero": lambda m, x: x / 0,
        "integers by zero": lambda m, x: x.long() // t.zeros(4, dtype=t.long),
        "gradients": lambda m, x: t.autograd.grad(x.requires_grad_().sum(), x)[0],
        "half": lambda m, x: x.half() @ x.half().T,
        "bfloat16": lambda m, x: (x.bfloat16() * 3).float(),
        "strides": lambda m, x: x.as_strided((2, 2), (1, 1)),
        "a loop": lambda m, x: _looped(x),
        "recursion": lambda m, x: m(x),
        "sorted": lambda m, x: t.sort(x, -1, stable=True),
        "bits": lambda m, x: x.view(t.int32) ^ 5,
        "a custom autograd function": lambda m, x: _function(t).apply(x),
        "the module itself": lambda m, x: m,
        "a meta tensor": lambda m, x: x.to("meta"),
        "a weight": lambda m, x: m.weight,
        "long names": lambda m, x: {"x" * 5000: x, "a\0b": x, "\ud800": x},
    }


def _seen(m: Any, x: Any) -> Any:
    m.seen = x
    return x


def _asserts(x: Any) -> Any:
    assert x.sum() > 1e9, "too small"
    return x


def _looped(x: Any) -> Any:
    for _ in range(200):
        x = x + 1
    return x


def _function(t: Any) -> Any:
    class Twice(t.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

    return Twice


MODULES = (
    "itself", "nothing", "a number", "a text", "a list of lists", "a dict of odd keys",
    "an odd dict", "a set", "itself twice", "a view", "complex", "fourier", "sparse", "raises",
    "asserts", "a branch on values", "a size of values", "items", "writes to its input",
    "writes to its buffer", "writes to its weight", "writes to an attribute", "random", "dropout",
    "no elements", "numpy", "a large constant", "a wild index", "a division by zero",
    "integers by zero", "gradients", "half", "bfloat16", "strides", "a loop", "recursion", "sorted",
    "bits", "a custom autograd function", "the module itself", "a meta tensor", "a weight",
    "long names",
)  # fmt: skip


def _module(name: str, given: str, options: dict[str, Any] | None = None) -> Case:
    def run(folder: Path) -> None:
        if not _made:
            return
        torch = _made["torch"]
        act = _modules(torch)[name]

        class Module(torch.nn.Module):  # type: ignore[misc, name-defined]
            def __init__(self) -> None:
                super().__init__()
                self.weight = torch.nn.Parameter(torch.ones(4))
                self.register_buffer("kept", torch.ones(4))

            def forward(self, x: Any) -> Any:
                return act(self, x)

        try:
            x = TENSORS[given](torch)
        except Exception:
            return
        module = Module().eval()
        try:
            model = maxlab.torch.load(module, x, **(options or {}))
            if name not in ("random", "dropout"):
                _agree(torch, model, module, x)
        except (MaxlabError, WrongResultError):
            raise
        except Exception as error:
            _require_own(torch, module, x, error)

    return Case(f"a module that gives {name}, for {given}, {options}", run)


def _require_own(torch: Any, module: Any, x: Any, error: Exception) -> None:
    """Raises ``error``, unless the module itself raises it, as `maxlab.torch.load` says."""
    try:
        with torch.no_grad():
            module(x)
    except Exception as own:
        if type(own) is type(error):
            return
    raise error


def _agree(torch: Any, model: Any, module: Any, x: Any) -> None:
    """The model gives what torch gives, where torch gives one plain tensor."""
    with torch.no_grad():
        made, want = model(x), module(x)
    if type(want) is not torch.Tensor or want.layout is not torch.strided:
        return
    if made.shape != want.shape or made.dtype != want.dtype:
        raise WrongResultError(f"{made.dtype} {made.shape} instead of {want.dtype} {want.shape}")
    if not torch.allclose(made, want, rtol=1e-2, atol=1e-3, equal_nan=True):
        raise WrongResultError(f"{made} instead of {want}")


def _weird(entry: str, value: Any, words: str) -> Case:
    def run(folder: Path) -> None:
        if _made:
            _checked(entry, value)

    return Case(f"{entry} <- {words}", run)


def _called(names: list[str]) -> Case:
    """The imported module with several arguments, some of them by names that it has not."""

    def run(folder: Path) -> None:
        if not _made:
            return
        given = []
        for name in names:
            try:
                given.append(TENSORS[name](_made["torch"]))
            except Exception:
                return
        if len(given) == 2:
            _made["imported"](given[0], input=given[1])
        else:
            _made["imported"](*given)

    return Case(f"the imported module called with {names}", run)


def _options(random: Random) -> dict[str, Any]:
    name = random.choice(("dynamic_batch", "dynamic_shapes", "num_threads"))
    return {name: random.choice((*WEIRD, {"x": {0: "n"}}, [{0: 3}], ({0: None},), {0: 1}))}


def _draw(random: Random) -> Case:
    turn = random.random()
    if turn < 0.06:
        options = _options(random) if random.random() < 0.4 else None
        given = random.choice(sorted(TENSORS)) if random.random() < 0.4 else "ones"
        return _module(random.choice(MODULES), given, options)
    entry = random.choice([name for name in ENTRIES if name not in SLOW or turn < 0.1])
    if turn < 0.2:
        value = random.choice(WEIRD)
        return _weird(entry, value, f"{value!r:.60}")
    if turn < 0.3:
        return _called([random.choice(sorted(TENSORS)) for _ in range(random.randrange(4))])
    return _entry(entry, random.choice(sorted(TENSORS)))


SEEDS = [
    *(_entry(entry, name) for entry in ("from_dlpack", "input", "constant", "weight")
      for name in ("conjugated", "meta", "quantized", "jagged", "sparse", "sparse rows", "mkldnn",
                   "gradient", "fake", "zero", "freed", "negated", "nested")),
    *(_entry(entry, name) for entry, name in (
        ("an index", "freed"), ("imported", "nested"), ("imported", "dispatch"),
        ("imported", "rank 0"),
        ("imported", "zero"), ("a device", "halves of a byte"),
        ("a dtype", "gradient"), ("input", "dispatch"), ("input of any size", "uninitialized"))),
    *(_module(name, "ones") for name in (
        "integers by zero", "writes to its input", "a size of values", "the module itself",
        "recursion", "nothing")),
]  # fmt: skip

FAMILIES = (Family("torch_objects", SEEDS, _draw, 1500, _ready, memory=1 << 30, block=75),)
