"""``Module``: a layer with weights and with layers below it, which have names by their place in the
tree."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, Self, runtime_checkable

from maxlab.errors import ArgumentTypeError, ModuleError, UnsupportedError, elsewhere, nearest
from maxlab.graph import DeviceRef, Type, Value, Weight
from maxlab.nn import states
from maxlab.nn.calls import Layer
from maxlab.nn.printing import text_of
from maxlab.opset.builder import Builder, builder

if TYPE_CHECKING:
    from maxlab.graph import Graph

_version = 0
"""Counts the changes of any tree of modules, so that paths found before a change are not used after
it."""


def changed() -> None:
    """Forget the paths of all modules; a layer was added or removed somewhere."""
    global _version
    _version += 1


@runtime_checkable
class Shardable(Protocol):
    """Something that can be cut into shards, one for each of several devices."""

    @property
    def sharding_strategy(self) -> Any:
        """How it is cut; None when it is not."""
        ...

    @sharding_strategy.setter
    def sharding_strategy(self, strategy: Any) -> None: ...

    def shard(self, devices: Iterable[DeviceRef]) -> Sequence[Self]:
        """The shards, one for each device."""
        ...


def no_gradients(what: str) -> UnsupportedError:
    """The error for ``what``, which trains."""
    return UnsupportedError(
        "ML962",
        f"{what}: graphs compute no gradients",
        fix="train with PyTorch, then run the module with maxlab.torch.load(module, x)",
    )


class Module(Layer):
    """A model or a part of one. Weights and modules that are assigned to attributes become part of
    it.

    The name of a weight in the model is the path of attributes to its module, then the name it was
    made with: ``encoder.layers.0.weight``. A module or weight that can be reached in several ways
    has its shortest path, of equal ones the first. Lists, tuples and dicts that are attributes are
    searched too: ``self.layers = [a, b]`` makes ``layers.0`` and ``layers.1``.

    Subclasses define ``__call__`` or ``forward``; calling ``super().__init__()`` is not needed.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef, Graph, TensorType, Weight, ops
        >>> class Linear(nn.Module):
        ...     def __init__(self, in_dim, out_dim):
        ...         self.weight = Weight("weight", DType.float32, (out_dim, in_dim))
        ...     def __call__(self, x):
        ...         return x @ self.weight.T
        >>> class MLP(nn.Module):
        ...     def __init__(self):
        ...         self.up = Linear(5, 10)
        ...         self.gate = Linear(5, 10)
        ...         self.down = Linear(10, 5)
        ...     def __call__(self, x):
        ...         return self.down(ops.silu(self.gate(x)) * self.up(x))
        >>> model = MLP()
        >>> {name: list(value.shape) for name, value in model.state_dict().items()}
        {'up.weight': [10, 5], 'gate.weight': [10, 5], 'down.weight': [5, 10]}
        >>> graph = Graph("mlp", model, [TensorType(DType.float32, ["n", 5])])
    """

    # ------------------------------------------------------------ attributes
    def __setattr__(self, name: str, value: Any) -> None:
        old = self.__dict__.get(name)
        locals_ = self.__dict__.setdefault("_local_names", {})
        if isinstance(value, Weight) and value.shard_idx is None:  # shards are of another weight
            local = states.slot_of(value).local
            for attribute, (other, taken) in locals_.items():
                if attribute != name and taken == local and other is not value:
                    raise ModuleError(
                        "ML702",
                        f"{type(self).__name__} has two weights named {local!r}: "
                        f".{attribute} and .{name}",
                        fix="give each Weight of one module a name of its own",
                    )
            locals_[name] = (value, local)
        else:
            locals_.pop(name, None)
        self.__dict__.get("_shared_weights", set()).discard(name)
        object.__setattr__(self, name, value)
        if isinstance(value, Module) or isinstance(old, Module):
            changed()

    def __delattr__(self, name: str) -> None:
        object.__delattr__(self, name)
        self.__dict__.get("_local_names", {}).pop(name, None)
        self.__dict__.get("_shared_weights", set()).discard(name)
        changed()

    @property
    def layer_weights(self) -> dict[str, Weight]:
        """The weights of this module itself, by the names they were made with; shared ones
        included."""
        return {local: weight for weight, local in self.__dict__.get("_local_names", {}).values()}

    @property
    def sublayers(self) -> dict[str, Module]:
        """The modules directly below this one, by attribute."""
        found: dict[str, Module] = {}
        for name, value in self.__dict__.items():
            if isinstance(value, Module):
                found[name] = value
            elif name[0] != "_" and isinstance(value, (list, tuple, dict)):
                items = value.items() if isinstance(value, dict) else enumerate(value)
                found.update({f"{name}.{i}": x for i, x in items if isinstance(x, Module)})
        return found

    def _has_lists(self) -> bool:
        """Whether modules may be added to it without its knowledge."""
        return any(
            name[0] != "_" and isinstance(value, (list, dict))
            for name, value in self.__dict__.items()
        )

    # ------------------------------------------------------------ as PyTorch calls it
    @property
    def training(self) -> bool:
        """False: graphs run for inference."""
        return False

    def eval(self) -> Self:
        """The module itself: graphs run for inference."""
        return self

    def train(self, mode: bool = True) -> Self:
        """The module itself, when ``mode`` is False.

        Raises:
            UnsupportedError: ML962, ``mode`` is True: graphs compute no gradients.
        """
        if mode:
            raise no_gradients(f"{type(self).__name__}.train()")
        return self

    def zero_grad(self) -> NoReturn:
        """Raises: a graph has no gradients.

        Raises:
            UnsupportedError: ML962, always: graphs compute no gradients.
        """
        raise no_gradients(f"{type(self).__name__}.zero_grad()")

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """The module itself, when ``requires_grad`` is False.

        Raises:
            UnsupportedError: ML962, it is True: graphs compute no gradients.
        """
        if requires_grad:
            raise no_gradients(f"{type(self).__name__}.requires_grad_()")
        return self

    def parameters(self) -> Iterator[Weight]:
        """The weights of the model, each once; see ``named_parameters``."""
        return iter(self.raw_state_dict().values())

    def named_parameters(self) -> Iterator[tuple[str, Weight]]:
        """The weights of the model with their full names, each once."""
        return iter(self.raw_state_dict().items())

    def children(self) -> Iterator[Module]:
        """The modules directly below this one."""
        return iter(self.sublayers.values())

    def named_modules(self) -> Iterator[tuple[str, Module]]:
        """This module and all below it with their paths, breadth first."""
        return iter(self._tree())

    def modules(self) -> Iterator[Module]:
        """This module and all below it, breadth first."""
        return (module for _, module in self._tree())

    # ------------------------------------------------------------ names
    def __repr__(self) -> str:
        return text_of(type(self).__name__, self.layer_weights, self.sublayers)

    def _tree(self) -> list[tuple[str, Module]]:
        """All modules from this one down with their paths, breadth first, each once."""
        cached = self.__dict__.get("_tree_cache")
        if cached is None or cached[0] != _version:
            cached = (_version, list(recursive_named_layers(self)))
            if not any(module._has_lists() for _, module in cached[1]):
                self.__dict__["_tree_cache"] = cached
        found: list[tuple[str, Module]] = cached[1]
        return found

    def __getstate__(self) -> dict[str, Any]:
        # A copy's tree is its own.
        return {name: value for name, value in self.__dict__.items() if name != "_tree_cache"}

    def _named_weights(self) -> list[tuple[str, Weight]]:
        """All weights that this tree owns by their full names; a weight may occur under several."""
        found: list[tuple[str, Weight]] = []
        for path, module in self._tree():
            shared = module.__dict__.get("_shared_weights", ())
            for attribute, (weight, local) in module.__dict__.get("_local_names", {}).items():
                if attribute not in shared:
                    found.append((f"{path}.{local}" if path else local, weight))
        return found

    def _name_weights(self, graph: Builder[Any]) -> None:
        """Name the weights that no state dict has named, as this module is called as a whole
        model. Of a shard it is the whole layer that does."""
        for whole in self.__dict__.get("_whole", ()):
            whole._name_weights(graph)
        seen: set[int] = set()
        for name, weight in self._named_weights():
            if id(weight) in seen:
                continue
            seen.add(id(weight))
            if not states.slot_of(weight).final and not graph.has_weight(weight):
                weight.name = name

    # ------------------------------------------------------------ state dicts
    def raw_state_dict(self) -> dict[str, Weight]:
        """All weights of the model by their full names, shared ones left out.

        Their ``align``, ``dtype``, ``shape`` and ``quantization_encoding`` may be changed before a
        graph is built.

        Raises:
            ModuleError: ML703, two weights have one full name.
        """
        found: dict[str, Weight] = {}
        seen: set[int] = set()
        for name, weight in self._named_weights():
            if id(weight) in seen:
                continue
            seen.add(id(weight))
            if name in found:
                raise ModuleError(
                    "ML703",
                    f"two weights have the full name {name!r}",
                    fix="rename an attribute, or the Weight itself",
                )
            found[name] = weight
        return found

    def state_dict(self, auto_initialize: bool = True) -> dict[str, Any]:
        """The values of all weights by their full names: what ``load`` of a session takes as its
        registry.

        Names of weights become final: graphs built from now on use them.

        Args:
            auto_initialize: Whether weights without a value get zeros.

        Returns:
            The arrays that were loaded, themselves; zeros are kept, so that the next call returns
            them too.

        Raises:
            ModuleError: ML704, a weight has no value and ``auto_initialize`` is False; ML705, a
                weight without a value has a shape that is not static.
        """
        weights = self.raw_state_dict()
        if not auto_initialize:
            missing = [n for n, weight in weights.items() if states.slot_of(weight).value is None]
            if missing:
                raise ModuleError(
                    "ML704",
                    f"{len(missing)} weights have no value: {states.listing(missing)}",
                    fix="call load_state_dict first, or pass auto_initialize=True for zeros",
                )
        values: dict[str, Any] = {}
        for name, weight in weights.items():
            slot = states.slot_of(weight)
            values[name] = states.zeros(name, weight) if slot.value is None else slot.value
        for name, weight in weights.items():
            slot = states.slot_of(weight)
            slot.value = values[name]
            slot.final = True
            weight.name = name
        return values

    def load_state_dict(
        self,
        state_dict: Mapping[str, Any],
        *,
        override_quantization_encoding: bool = False,
        weight_alignment: int | None = None,
        strict: bool = True,
    ) -> None:
        """Set the values of all weights. Either all of them are set, or, on an error, none.

        The arrays are not copied: they must stay as they are while a model uses them. A shape
        ``[]`` may come as ``[1]`` and the other way round.

        Args:
            state_dict: Arrays (NumPy, DLPack or ``driver.Tensor``) or ``WeightData`` by full name.
            override_quantization_encoding: Whether a packed weight takes the encoding of its
                value, which may also be numbers, and with it dtype and shape.
            weight_alignment: The alignment in bytes that each weight gets; None keeps each weight's
                own, which is that of its dtype when it has none.
            strict: Whether missing and unexpected names are errors. They are ignored when False.

        Raises:
            ModuleError: ML706, names are missing or unexpected; ML707, another shape or dtype than
                the weight's; ML708, a value that is not aligned or not contiguous; ML709, a
                value of another encoding; ML710, something that is not an array; ML711, different
                values for one weight that has two names.

        Example:
            >>> import numpy as np
            >>> from maxlab import nn
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import DeviceRef
            >>> layer = nn.Linear(2, 3, DType.float32, DeviceRef.CPU())
            >>> layer.load_state_dict({"weight": np.ones((3, 2), np.float32)})
        """
        weights = self.raw_state_dict()
        aliases = [(n, w) for n, w in self._named_weights() if weights.get(n) is not w]
        given = states.without_aliases(state_dict, weights, aliases)
        if strict:
            states.check_names(type(self).__name__, set(weights), set(given))
        values = {
            name: states.checked(
                name, weight, given[name], weight_alignment, override_quantization_encoding
            )
            for name, weight in weights.items()
            if name in given
        }
        for name, weight in weights.items():
            slot = states.slot_of(weight)
            slot.final = True
            weight.name = name
            if weight_alignment is not None:
                weight.align = weight_alignment
            if name in values:
                values[name].put(weight)

    def set_shared_weight(self, name: str, weight: Weight) -> None:
        """Make ``weight``, which another module owns, the attribute ``name`` of this one.

        ``raw_state_dict``, ``state_dict`` and ``load_state_dict`` leave it to its owner.

        Args:
            name: The attribute.
            weight: The weight.

        Raises:
            ArgumentTypeError: ML712, ``weight`` is not a ``Weight``.
        """
        if not isinstance(weight, Weight):
            raise ArgumentTypeError(
                "ML712",
                f"a shared weight is a Weight, got {type(weight).__name__}",
                fix="pass the attribute of the layer that owns it, such as embedding.weight",
            )
        locals_ = self.__dict__.setdefault("_local_names", {})
        object.__setattr__(self, name, weight)
        locals_[name] = (weight, name)
        self.__dict__.setdefault("_shared_weights", set()).add(name)

    # ------------------------------------------------------------ devices
    def to(self, *devices: Any, sharding_strategy: Any = None) -> Self:
        """The module itself, its weights, and what it computes, from now on on a device.

        Args:
            *devices: One device, which may be named, ``"gpu:1"``; weights cannot be cut for several
                in this version.
            sharding_strategy: None; as above.

        Raises:
            ModuleError: ML713, no device, or more than one.
            GraphError: A sharding strategy.
        """
        places = [DeviceRef.from_device(device) for device in devices]
        if len(places) != 1:
            raise ModuleError(
                "ML713",
                f"{len(places)} devices for {type(self).__name__}, expected one",
                fix="modules are not cut for several devices in this version: name one device",
            )
        for _, weight in self._named_weights():
            weight.sharding_strategy = sharding_strategy
            weight.device = places[0]
        for _, module in self._tree():
            if isinstance(module.__dict__.get("device"), DeviceRef):
                module.device = places[0]
            if isinstance(module.__dict__.get("devices"), list):
                module.devices = places
        return self

    # ------------------------------------------------------------ subgraphs
    def build_subgraph(
        self,
        name: str,
        input_types: Sequence[Type | list[Type]],
        weight_prefix: str = "",
    ) -> Graph:
        """A subgraph of the current graph with what this module computes, to be called with
        ``ops.call``.

        Build it once from one of several equal layers and call it for each with the layer's own
        weights.

        Args:
            name: A name that no other subgraph of the current graph has.
            input_types: The type of each argument; a list of types stands for an argument that is a
                list of values.
            weight_prefix: Weights whose full names start with it are completed by the ``prefix`` of
                each call.

        Raises:
            NoGraphError: ML313, no graph is being built.
            ArgumentError: ML323, the name is taken.
            ArgumentTypeError: ML714, something that is not a type.

        Example:
            >>> from maxlab import nn
            >>> from maxlab.dtype import DType
            >>> from maxlab.graph import DeviceRef, Graph, TensorType, ops
            >>> cpu = DeviceRef.CPU()
            >>> layers = nn.LayerList([nn.Linear(4, 4, DType.float32, cpu) for _ in range(3)])
            >>> registry = layers.state_dict()
            >>> row = TensorType(DType.float32, ["n", 4])
            >>> with Graph("stack", input_types=[row]) as graph:
            ...     block = layers[0].build_subgraph("block", [row], weight_prefix="0.")
            ...     x = graph.inputs[0]
            ...     for i in range(3):
            ...         (x,) = ops.call(block, x, prefix=f"{i}.")
            ...     graph.output(x)
        """
        parent: Any = builder(what="a subgraph")
        groups: list[int | None] = []
        flat: list[Type] = []
        for number, entry in enumerate(input_types):
            group = [entry] if isinstance(entry, Type) else entry
            if not isinstance(group, (list, tuple)) or not all(isinstance(t, Type) for t in group):
                raise ArgumentTypeError(
                    "ML714",
                    f"input type {number} of {name!r} is {entry!r}, expected a type",
                    fix="write TensorType(dtype, shape), or a list of types",
                )
            groups.append(None if isinstance(entry, Type) else len(group))
            flat.extend(group)
        renamed: list[tuple[Weight, str, bool]] = []
        with parent.transaction():
            subgraph: Graph = parent.add_subgraph(name, input_types=flat)
            try:
                for full, weight in self._named_weights():
                    if states.slot_of(weight).final or parent.has_weight(weight):
                        full = weight.name
                    if weight_prefix and full.startswith(weight_prefix):
                        renamed.append((weight, weight.name, weight._placeholder))
                        weight.name = full.removeprefix(weight_prefix)
                        weight._placeholder = True
                with subgraph:
                    subgraph.output(*_flat(self(*_grouped(subgraph.inputs, groups))))
            finally:
                for weight, old, placeholder in reversed(renamed):
                    weight.name = old
                    weight._placeholder = placeholder
        return subgraph


_INSTEAD = {
    "cpu": "name the device: module.to('cpu')",
    "cuda": "name the device: module.to('gpu')",
    "half": "give layers their dtype when they are made: nn.Linear(4, 4, 'float16')",
    "float": "give layers their dtype when they are made: nn.Linear(4, 4, 'float32')",
    "register_buffer": "make it a Weight as an attribute",
    "register_parameter": "make it a Weight as an attribute",
    "apply": "for name, layer in module.sublayers.items(): ...",
    "add_module": "assign the module to an attribute",
    "forward": "define forward, or __call__, in the class",
}


elsewhere(Module, "module", _INSTEAD)
nearest(Module, "")  # by the name of the user's class


def _grouped(values: Sequence[Value], groups: list[int | None]) -> list[Any]:
    """``values`` as the arguments they stand for: one by one, or in lists."""
    found: list[Any] = []
    at = 0
    for size in groups:
        if size is None:
            found.append(values[at])
            at += 1
        else:
            found.append(list(values[at : at + size]))
            at += size
    return found


def _flat(outputs: Any) -> list[Any]:
    if outputs is None:
        return []
    if isinstance(outputs, (list, tuple)):
        return [value for item in outputs for value in _flat(item)]
    return [outputs]


def recursive_named_layers(parent: Module, prefix: str = "") -> Iterable[tuple[str, Module]]:
    """``parent`` and all modules below it with their paths, breadth first, each once.

    Args:
        parent: The module to start with; its own path is ``prefix``.
        prefix: What precedes all paths.

    Example:
        >>> from maxlab import nn
        >>> from maxlab.dtype import DType
        >>> from maxlab.graph import DeviceRef
        >>> model = nn.Sequential([nn.Linear(2, 2, DType.float32, DeviceRef.CPU())])
        >>> [name for name, _ in nn.recursive_named_layers(model, "model")]
        ['model', 'model.0']
    """
    seen = {id(parent)}
    queue = deque([(prefix, parent)])
    while queue:
        path, module = queue.popleft()
        yield path, module
        for name, child in module.sublayers.items():
            if id(child) not in seen:
                seen.add(id(child))
                queue.append((f"{path}.{name}" if path else name, child))
