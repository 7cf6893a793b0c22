"""``TorchModel``: a module of torch as a compiled graph, and ``TorchProfile``, what it costs."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch.export.graph_signature import ConstantArgument, InputKind, OutputKind
from torch.utils import _pytree as pytree

from maxlab import trace
from maxlab.dtype import DType
from maxlab.engine import InferenceSession, Model
from maxlab.engine.profile import Profile, profile_model
from maxlab.engine.times import plural, time_text
from maxlab.errors import InputError, shown
from maxlab.graph import Graph
from maxlab.torch.export import check_devices, export
from maxlab.torch.held import Held
from maxlab.torch.importer import Importer, Ran
from maxlab.torch.source import of_export

TOLERANCES: dict[torch.dtype, float] = {
    torch.float64: 1e-9,
    torch.float32: 1e-3,
    torch.float16: 2e-2,
    torch.bfloat16: 1e-1,
}
"""How far an output may be from torch's, as a fraction of its largest element: rounding adds up
over the layers of a model, in another order here than there."""


@dataclass(frozen=True, slots=True)
class Agreement:
    """How far the outputs are from those of torch.

    Attributes:
        largest: The largest difference of two elements.
        relative: The same as a fraction of the largest element of that output.
        elements: How many elements were compared.
        unequal: Integers and bools that differ, and NaNs that only one of the two has.
        ok: Whether every output is within ``TOLERANCES``.
        why_not: Why nothing was compared; empty when it was.
    """

    largest: float
    relative: float
    elements: int
    unequal: int
    ok: bool
    why_not: str = ""

    def __str__(self) -> str:
        if self.why_not:
            return f"not compared with torch: {self.why_not}"
        word = "agree with torch" if self.ok else "DIFFER from torch"
        text = f"the outputs {word}: largest difference {self.largest:.3g}"
        text += f" ({self.relative:.2g} of the largest element)"
        return text + (f", {self.unequal} elements unequal" if self.unequal else "")


_IN_NUMPY = frozenset({torch.float32, torch.float64, torch.int32, torch.int64, torch.uint8})
"""Dtypes whose tensors are passed on as arrays of NumPy."""


def _shared(x: Any) -> Any:
    """``x``, or an array of the same memory, which takes a fraction of what DLPack takes."""
    if type(x) is not torch.Tensor or x.dtype not in _IN_NUMPY or x.layout is not torch.strided:
        return x
    is_odd = x.is_neg() or x.is_nested or x._is_zerotensor()  # its memory is not its elements
    return x if is_odd or x.device.type != "cpu" else x.numpy()


_NUMBERS = frozenset(
    {DType.float32, DType.float64, DType.int32, DType.int64, DType.uint8, DType.bool}
)
"""Dtypes whose results are passed on as arrays of NumPy."""


def _as_torch(x: Any) -> torch.Tensor:
    """The result ``x`` as a tensor of torch, by way of NumPy where that is faster than DLPack."""
    if x.dtype in _NUMBERS and x.is_host and not x.read_only:
        return torch.from_numpy(x.to_numpy())
    tensor: torch.Tensor = torch.from_dlpack(x)
    return tensor


@dataclass(frozen=True, slots=True)
class Eager:
    """Times of the module itself, run by torch between the runs of the model.

    Attributes:
        ns: Nanoseconds of one call, the median.
        ns_min: Nanoseconds of the fastest call.
        runs: Calls that were timed.
        threads: Threads that torch may use.
    """

    ns: float
    ns_min: int
    runs: int
    threads: int


class TorchModel:
    """A module of torch as a maxlab graph, compiled. ``maxlab.torch.load`` makes it.

    It is called like the module and returns what the module returns. Operations that maxlab does
    not have are run by torch, as steps of the same plan.

    Attributes:
        module: The module. Its parameters are used in place, packed or copied: when one of them
            has changed, the model refuses to run, and the module is to be loaded again.
        graph: The graph.
        model: The compiled graph: look at its kernels, plan and passes.
        coverage: Every operation of the module, how often it stands in the graph, who runs it, and
            if that is torch, why.

    Example:
        >>> import torch
        >>> import maxlab.torch
        >>> mlp = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU())
        >>> x = torch.ones(2, 4)
        >>> model = maxlab.torch.load(mlp, x)
        >>> bool(torch.allclose(model(x), mlp(x), atol=1e-6))
        True
        >>> [(row.name, row.by) for row in model.coverage]
        [('aten.linear', 'maxlab'), ('aten.relu', 'maxlab')]
    """

    def __init__(
        self,
        module: torch.nn.Module,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        *,
        dynamic_shapes: Any = None,
        dynamic_batch: bool = False,
        num_threads: int | None = None,
    ) -> None:
        check_devices(module, args, kwargs)
        self.module = module
        name = type(module).__name__
        with trace.span("import", name):
            exported = export(module, args, kwargs, dynamic_shapes, dynamic_batch)
            found = Importer(of_export(exported.program, exported.names), name)
            self.graph: Graph = found.build()
        self.coverage: list[Ran] = found.coverage
        self._program = exported.program
        # Asked for once: torch makes them anew each time.
        self._called, signature = exported.program.call_spec, exported.program.graph_signature
        self._taken = [s for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
        self._given = [s for s in signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
        # How many arguments there are if all are tensors given by position, else -1.
        self._plain = len(args)
        if kwargs or self._called.in_spec != pytree.tree_structure(((0,) * len(args), {})):
            self._plain = -1
        self._random = _draws(exported.program)
        self._ranges = exported.ranges
        session = InferenceSession(num_threads=num_threads)
        self.model: Model = session.load(self.graph, weights_registry=found.weights)
        self._held = Held(module, found.held)

    # ------------------------------------------------------------ running
    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The module's result, in the same tuples and dicts; its tensors are new.

        Raises:
            InputError: ML687, other arguments than those of the example, apart from the contents
                and the named sizes of tensors; ML730, one of them requires gradients.
            WeightError: ML729, a parameter or buffer of the module has changed.
        """
        tensors = self.inputs(*args, **kwargs)
        with torch.no_grad():
            return self._unflattened(self.model.execute(*map(_shared, tensors)))

    def inputs(self, *args: Any, **kwargs: Any) -> list[torch.Tensor]:
        """The tensors among the arguments, as ``model.execute`` takes them.

        Raises:
            InputError: ML687, they are other arguments than those of the example; ML730, one of
                them requires gradients while gradients are recorded.
            WeightError: ML729, a parameter or buffer of the module has changed.
        """
        self._held.require_unchanged()
        records = torch.is_grad_enabled()
        expected, specs = self._called.in_spec, self._taken
        leaves: Sequence[Any]
        if not kwargs and len(args) == self._plain and all(type(x) is torch.Tensor for x in args):
            leaves, spec = args, expected
        else:
            leaves, spec = pytree.tree_flatten((tuple(args), dict(kwargs)))
        if spec != expected or len(leaves) != len(specs):
            raise InputError(
                "ML687",
                f"{self.graph.name} was imported for the arguments {expected}, got {spec}",
                fix="pass the same arguments by position and by name, or load the module again",
            )
        found = []
        for leaf, of in zip(leaves, specs, strict=True):
            if isinstance(of.arg, ConstantArgument):
                if leaf is not of.arg.value and leaf != of.arg.value:
                    raise InputError(
                        "ML687",
                        f"{self.graph.name} was imported for {of.arg.name} = {of.arg.value!r}, got "
                        f"{leaf!r}: only tensors may change from call to call",
                        fix="load the module again with that argument",
                    )
                continue
            if not isinstance(leaf, torch.Tensor):
                found.append(leaf)
                continue
            try:
                gradient, plain = leaf.requires_grad, leaf.detach().contiguous()
            except Exception as error:  # of a subclass, or of a tensor that torch has no memory of
                raise InputError(
                    "ML687",
                    f"the input {of.arg.name!r} of {self.graph.name} is a tensor that torch itself "
                    f"cannot read: {shown(error, 200)}",
                    fix="pass a dense tensor of the CPU",
                ) from error
            if records and gradient:
                raise InputError(
                    "ML730",
                    f"the input {of.arg.name!r} of {self.graph.name} requires gradients, and a "
                    "compiled model gives none: its results would be cut off from autograd",
                    fix=f"pass {of.arg.name}.detach(), or call the model inside of "
                    "`with torch.inference_mode():`",
                )
            found.append(plain)
        self._check_ranges(found)
        return found

    def _check_ranges(self, inputs: Sequence[Any]) -> None:
        """Raises unless the named sizes are those for which the module takes the exported path."""
        for place, axis, name, low, high in self._ranges:
            given = inputs[place]
            if not isinstance(given, torch.Tensor) or given.is_nested or axis >= given.ndim:
                continue  # it has no such size; the graph says what is wrong with it
            size = given.shape[axis]
            if not low <= size <= high:
                raise InputError(
                    "ML687",
                    f"{name} = {size} is outside of {low} to {high}, for which {self.graph.name} "
                    "was exported",
                    fix="load the module again, with a Dim of another min and max in "
                    "dynamic_shapes",
                )

    def _unflattened(self, outputs: Sequence[Any]) -> Any:
        made = iter([_as_torch(x) for x in outputs])
        leaves = []
        for spec in self._given:
            if isinstance(spec.arg, ConstantArgument):
                leaves.append(spec.arg.value)
                continue
            tensor = next(made)
            is_size = type(spec.arg).__name__ == "SymIntArgument"
            leaves.append(int(tensor) if is_size else tensor)
        return pytree.tree_unflatten(leaves, self._called.out_spec)

    # ------------------------------------------------------------ looking
    def check(self, *args: Any, **kwargs: Any) -> Agreement:
        """How far the outputs for these arguments are from those of torch."""
        if self._random:
            return Agreement(0.0, 0.0, 0, 0, True, f"{self._random} draws random numbers")
        with torch.no_grad():
            wanted = self.module(*args, **kwargs)
            return _agreement(self(*args, **kwargs), wanted)

    def profile(self, *args: Any, runs: int = 20, warmup: int = 3, **kwargs: Any) -> TorchProfile:
        """A ``Profile`` of the model on these arguments, with the time of the module in torch and
        the agreement of the outputs.

        Args:
            *args: As the module takes them.
            runs: Timed executions; the module is called as often.
            warmup: Executions before them that are not counted.
            **kwargs: As the module takes them.
        """
        with torch.no_grad():
            inputs = self.inputs(*args, **kwargs)
        profile = profile_model(self.model, inputs, runs, warmup)
        eager = self._eager(args, kwargs, inputs, runs, warmup)
        made = TorchProfile(profile, self, eager, self.check(*args, **kwargs))
        self.model.last_profile = made
        return made

    def _eager(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        inputs: Sequence[torch.Tensor],
        runs: int,
        warmup: int,
    ) -> Eager:
        """The times of the module, between runs of the model: both under the same conditions."""
        spent = []
        with torch.no_grad():
            for run in range(warmup + runs):
                self.model.run_to_the_end(*inputs)
                start = time.perf_counter_ns()
                self.module(*args, **kwargs)
                if run >= warmup:
                    spent.append(time.perf_counter_ns() - start)
        return Eager(float(np.median(spent)), min(spent), runs, torch.get_num_threads())

    def __repr__(self) -> str:
        ours = sum(r.count for r in self.coverage if r.by == "maxlab")
        theirs = sum(r.count for r in self.coverage if r.by == "torch")
        return (
            f"TorchModel({self.graph.name!r}, {plural(ours, 'operation')} run by maxlab, "
            f"{theirs} by torch)"
        )

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return trace.mimebundle(self.model, include, exclude)


class TorchProfile(Profile):
    """The cost of a module of torch as a maxlab graph, and in torch itself.

    Attributes:
        source: The ``TorchModel``.
        eager: What the module took in torch.
        agreement: How far the outputs are from torch's.
    """

    def __init__(
        self, measured: Profile, source: TorchModel, eager: Eager, agreement: Agreement
    ) -> None:
        self.__dict__.update(measured.__dict__)
        self.source = source
        self.eager = eager
        self.agreement = agreement

    @property
    def torch_share(self) -> float:
        """The part of the kernels' time that torch spent, as a fraction."""
        total = self.kernel_ns
        return sum(k.ns for k in self.kernels if k.kind == "torch") / total if total else 0.0

    def table(self, rows: int | None = 20) -> str:
        """The kernels as text, the most expensive first, below lines about the whole run, about
        torch, and about what torch ran."""
        head, _, rest = super().table(rows).partition("\n\n")
        eager = self.eager
        ratio = eager.ns / self.wall_ns if self.wall_ns else 0.0
        word = f"{ratio:.2f} times as long" if ratio >= 1 else f"{1 / ratio:.2f} times faster"
        with_torch = (
            f"torch itself {time_text(eager.ns)} (fastest {time_text(eager.ns_min)}) with "
            f"{eager.threads} threads: {word if ratio else 'not measured'}"
        )
        lines = [head, with_torch, str(self.agreement)]
        theirs = [r for r in self.source.coverage if r.by == "torch"]
        if theirs:
            lines.append(f"torch ran {self.torch_share:.1%} of it:")
            lines += [f"  {r.name} ×{r.count}: {r.reason}" for r in theirs]
        return "\n".join(lines) + "\n\n" + rest


def _draws(program: torch.export.ExportedProgram) -> str:
    """The name of an operation that draws random numbers; empty when there is none."""
    for node in program.graph_module.graph.nodes:
        tags = getattr(node.target, "tags", ())
        if torch.Tag.nondeterministic_seeded in tags:
            # Attention may drop out too: its fifth operand says how much.
            if "scaled_dot_product" in str(node.target) and not (
                node.args[4] if len(node.args) > 4 else node.kwargs.get("dropout_p", 0.0)
            ):
                continue
            return str(node.target)
    return ""


def _agreement(ours: Any, theirs: Any) -> Agreement:
    largest, relative, elements, unequal, ok = 0.0, 0.0, 0, 0, True
    pairs = zip(pytree.tree_leaves(ours), pytree.tree_leaves(theirs), strict=True)
    for made, wanted in pairs:
        if not isinstance(wanted, torch.Tensor) or not wanted.numel():
            continue
        elements += wanted.numel()
        tolerance = TOLERANCES.get(wanted.dtype)
        if tolerance is None:
            count = int((made != wanted).sum())
            unequal += count
            ok &= count == 0
            continue
        x, y = made.double(), wanted.double()
        off = (x - y).abs()
        same = (x == y) | (x.isnan() & y.isnan())  # infinities too
        off = torch.where(same, 0.0, off)
        broken = int(off.isnan().sum() + off.isinf().sum())
        unequal += broken
        most = float(off.nan_to_num(0.0, 0.0, 0.0).max())
        finite = y.abs().nan_to_num(0.0, 0.0, 0.0).max()
        scale = float(finite)
        largest = max(largest, most)
        relative = max(relative, most / scale if scale else most)
        ok &= not broken and most <= tolerance * max(scale, 1e-6)
    return Agreement(largest, relative, elements, unequal, ok)
