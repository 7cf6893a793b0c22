"""``Module``: tensors and modules under names, with a computation; and ``module_dataclass``."""

from __future__ import annotations

import copy
import dataclasses
import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import (
    TYPE_CHECKING,
    Any,
    Generic,
    ParamSpec,
    Self,
    TypeVar,
    dataclass_transform,
    overload,
)

from maxlab.driver import CPU, Device
from maxlab.errors import ModuleError, UnsupportedError
from maxlab.experimental.nn import states
from maxlab.experimental.nn.compiling import CompiledModule, compile_module, in_scope
from maxlab.experimental.tensor import Tensor

if TYPE_CHECKING:
    from maxlab.graph import TensorType, Type

_P = ParamSpec("_P")
_R = TypeVar("_R")
_M = TypeVar("_M", bound="Module[..., Any]")

_DEVICE = "_device"


class Module(Generic[_P, _R]):
    """Tensors, its *parameters*, and other modules, its *children*, under the names of attributes,
    with a computation over them.

    A class of modules says what it computes in ``forward``, or in ``__call__``. Called, a module
    computes with eager tensors; compiled, the same lines become one graph. Children of children are
    *descendants*, and are named by their path, such as ``encoder.layers.0``; the parameters of a
    descendant have the name of the attribute at the end of that path. Modules in lists or dicts are
    not found: ``Sequential`` holds a list of them, and so does a module that has each as an
    attribute.

    A class may say what it takes and gives for type checkers: ``Module[[Tensor], Tensor]``.

    Example:
        >>> from maxlab.experimental.nn import Module, module_dataclass
        >>> from maxlab.experimental.tensor import Tensor
        >>> @module_dataclass
        ... class Linear(Module):
        ...     weight: Tensor
        ...     bias: Tensor | int = 0
        ...     def forward(self, x: Tensor) -> Tensor:
        ...         return x @ self.weight.T + self.bias
        >>> linear = Linear(Tensor.zeros([5, 4]))
        >>> linear(Tensor.constant([1, 2, 3, 4])).shape
        [Dim(5)]
        >>> [name for name, _ in linear.parameters]
        ['weight']
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        call = cls.__dict__.get("__call__")
        if inspect.isfunction(call):
            cls.__call__ = in_scope(call)  # type: ignore[method-assign]

    @in_scope
    def __call__(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """The result of ``forward``."""
        return self.forward(*args, **kwargs)

    def forward(self, *args: _P.args, **kwargs: _P.kwargs) -> _R:
        """Computes the module's result; each class of modules writes its own.

        Raises:
            UnsupportedError: ML732, the class has none; a ``NotImplementedError``.
        """
        name = type(self).__name__
        raise UnsupportedError(
            "ML732",
            f"{name} computes nothing: it has neither forward nor __call__",
            fix=f"write def forward(self, x): ... in it, or call a module that {name} holds",
        )

    # ------------------------------------------------------------ the tree
    @property
    def local_parameters(self) -> Iterable[tuple[str, Tensor]]:
        """The tensors that are attributes of this module: pairs ``(name, tensor)``."""
        return [(name, v) for name, v in states.attributes(self) if isinstance(v, Tensor)]

    @property
    def parameters(self) -> Iterable[tuple[str, Tensor]]:
        """The tensors of this module, then those of its children, each with what is below it: pairs
        ``(path, tensor)``.

        Raises:
            ModuleError: ML731, a module is its own descendant.

        Example:
            >>> from maxlab.experimental.nn import Linear, Sequential
            >>> model = Sequential(Linear(10, 20), Linear(20, 5, bias=False))
            >>> sum(parameter.num_elements() for _, parameter in model.parameters)
            320
        """
        return [
            (f"{path}{name}", tensor)
            for path, module in _tree(self)
            for name, tensor in module.local_parameters
        ]

    @property
    def children(self) -> Iterable[tuple[str, Module[..., Any]]]:
        """The modules that are attributes of this one: pairs ``(name, module)``."""
        return [(name, v) for name, v in states.attributes(self) if isinstance(v, Module)]

    @property
    def descendants(self) -> Iterable[tuple[str, Module[..., Any]]]:
        """The children, each with what is below it: pairs ``(path, module)``.

        Raises:
            ModuleError: ML731, a module is its own descendant.
        """
        return [(path.removesuffix("."), module) for path, module in _tree(self) if path]

    @property
    def descendents(self) -> Iterable[tuple[str, Module[..., Any]]]:
        """`descendants`, in the spelling of earlier versions."""
        return self.descendants

    # ------------------------------------------------------------ devices
    @property
    def device(self) -> Device:
        """Where the module computes and its parameters lie: what `to` or the class has set, the CPU
        before that.

        Example:
            >>> from maxlab.experimental.nn import Linear
            >>> Linear(2, 3).device
            Device(type=cpu,id=0)
        """
        found: Device | None = self.__dict__.get(_DEVICE)
        return CPU() if found is None else found

    @device.setter
    def device(self, device: Device) -> None:
        self.__dict__[_DEVICE] = device

    def to(self, device: Device) -> Self:
        """This module, once the parameters of it and of its descendants lie on ``device``, which is
        now the `device` of each.

        Raises:
            ModuleError: ML731, a module is its own descendant.

        Example:
            >>> from maxlab.driver import CPU
            >>> from maxlab.experimental.nn import Linear
            >>> Linear(2, 3).to(CPU()).device
            Device(type=cpu,id=0)
        """
        modules = _once(self)
        self.apply_to_parameters(lambda _, tensor: tensor.to(device))
        for _, module in modules:
            module.device = device
        return self

    # ------------------------------------------------------------ parameters replaced
    def apply_to_local_parameters(self, f: Callable[[str, Tensor], Tensor]) -> None:
        """Replace each tensor of this module, not those of its descendants, by what ``f`` gives.

        Args:
            f: Called with the name of the attribute and the tensor. Where it raises, the module
                stays as it was.

        Raises:
            ModuleError: ML734, ``f`` gave something that is no tensor.

        Example:
            >>> from maxlab.experimental.nn import Linear
            >>> model = Linear(2, 3)
            >>> model.apply_to_local_parameters(lambda name, tensor: tensor * 0 + 1)
            >>> model.bias.max().item()
            1.0
        """
        _set_all([(self, name, f(name, tensor)) for name, tensor in self.local_parameters])

    def apply_to_parameters(self, f: Callable[[str, Tensor], Tensor]) -> None:
        """Replace each tensor of this module and of its descendants by what ``f`` gives.

        Args:
            f: Called with the path of the parameter and the tensor; once for a module that is found
                under two paths. Where it raises, all modules stay as they were.

        Raises:
            ModuleError: ML731, a module is its own descendant; ML734, ``f`` gave something that is
                no tensor.

        Example:
            >>> from maxlab.dtype import DType
            >>> from maxlab.experimental.nn import Linear, Sequential
            >>> model = Sequential(Linear(2, 3), Linear(3, 1))
            >>> model.apply_to_parameters(lambda name, tensor: tensor.cast(DType.bfloat16))
            >>> {tensor.dtype.name for _, tensor in model.parameters}
            {'bfloat16'}
        """
        _set_all(self._mapped(f))

    def map_parameters(self, f: Callable[[str, Tensor], Tensor]) -> Self:
        """A deep copy of this module whose tensors are what ``f`` gives for those of this one.

        Args:
            f: Called with the path of the parameter and the tensor.

        Raises:
            ModuleError: ML731, a module is its own descendant; ML734, ``f`` gave something that is
                no tensor.

        Example:
            >>> from maxlab.experimental.nn import Linear
            >>> from maxlab.experimental.tensor import Tensor
            >>> model = Linear(2, 3)
            >>> zeros = model.map_parameters(lambda name, tensor: Tensor.zeros_like(tensor.type))
            >>> float(zeros.weight.reshape([6]).max().item())
            0.0
        """
        memo: dict[int, Any] = {}
        found = list(self.parameters)
        for _, tensor in found:
            memo[id(tensor)] = tensor  # replaced below: its data need no copy
        made = copy.deepcopy(self, memo)
        _set_all(made._mapped(f), is_new=True)
        return made

    def _mapped(
        self, f: Callable[[str, Tensor], Tensor]
    ) -> list[tuple[Module[..., Any], str, Tensor]]:
        """For each parameter the module that has it, its name there, and what ``f`` gives."""
        return [
            (module, name, f(f"{path}{name}", tensor))
            for path, module in _once(self)
            for name, tensor in module.local_parameters
        ]

    def load_state(self, lookup: Callable[..., Any]) -> None:
        """Replace each tensor of this module and of its descendants by what ``lookup`` finds.

        A function, so that other names and layouts are made fit on the way; `load_state_dict` takes
        a mapping as it is, and checks it.

        Args:
            lookup: Called with the path of the parameter, and, where it takes two arguments, with
                the tensor that it has; gives a tensor, or an array of NumPy or any other library of
                the DLPack protocol. Where it raises, all modules stay as they were.

        Raises:
            ModuleError: ML731, a module is its own descendant; ML710, something that is no array.

        Example:
            >>> import numpy as np
            >>> from maxlab.experimental.nn import Linear
            >>> model = Linear(2, 3, bias=False)
            >>> model.load_state({"weight": np.ones((3, 2), np.float32)}.__getitem__)
            >>> float(model.weight.reshape([6]).mean().item())
            1.0
        """
        with_tensor = states.takes_tensor(lookup)
        self.apply_to_parameters(
            lambda name, tensor: states.tensor_of(
                name, lookup(name, tensor) if with_tensor else lookup(name)
            )
        )

    def load_state_dict(self, state: Mapping[str, Any], strict: bool = True) -> None:
        """Replace each tensor of this module and of its descendants by the value of its path in
        ``state``; all of them, or, where one does not fit, none.

        Args:
            state: Tensors or arrays of NumPy or the DLPack protocol by path. Shapes and dtypes are
                those of the parameters; what lies on another device is copied.
            strict: Whether names that are no parameter's are errors.

        Raises:
            MissingKeyError: ML733, a parameter has no value, whatever ``strict``; a ``KeyError``.
            ModuleError: ML706, names that are no parameter's; ML707, a value of another shape or
                dtype; ML710, something that is no array; ML731, a module is its own descendant.
                A ``ValueError``, all of them.

        Example:
            >>> import numpy as np
            >>> from maxlab.experimental.nn import Linear
            >>> model = Linear(2, 3)
            >>> model.load_state_dict(
            ...     {"weight": np.ones((3, 2), np.float32), "bias": np.zeros(3, np.float32)}
            ... )
            >>> float(model.weight.reshape([6]).mean().item())
            1.0
        """
        states.check_names(type(self).__name__, dict(self.parameters), state, strict)
        self.apply_to_parameters(lambda name, tensor: states.fitting(name, tensor, state[name]))

    # ------------------------------------------------------------ compiled
    def compile(
        self, *input_types: Type, weights: Mapping[str, Any] | None = None
    ) -> CompiledModule:
        """This module for inputs of ``input_types`` as one compiled graph, called as the module is.

        The computation is run once with tensors that have a type and no value. The parameters
        become weights of the graph, with the values that they have now: later changes of the module
        are not seen. A symbolic dim takes inputs of any size without compiling again.

        Args:
            *input_types: A type for each positional argument, such as
                ``TensorType(DType.float32, ["n", 5])``.
            weights: Values of the weights by the path of the parameter, in place of those that the
                module has; what lies on another device is copied.

        Raises:
            UnusableArgumentError: ML725, the types are not those of the arguments; ML735, the
                result is no tensor, nor tuple, list or dict of tensors. A ``TypeError``.
            ArgumentTypeError: ML748, a layer of ``maxlab.nn`` among the attributes.
            MissingKeyError: ML733, ``weights`` has no value of a parameter; a ``KeyError``.
            ModuleError: ML707, a value of another shape or dtype; a ``ValueError``.

        Example:
            >>> import numpy as np
            >>> from maxlab.dtype import DType
            >>> from maxlab.experimental.nn import Linear
            >>> from maxlab.experimental.tensor import Tensor, TensorType, defaults
            >>> _, device = defaults()
            >>> compiled = Linear(5, 10).compile(TensorType(DType.float32, ["n", 5], device=device))
            >>> [compiled(Tensor.ones([n, 5])).shape for n in (3, 7)]
            [[Dim(3), Dim(10)], [Dim(7), Dim(10)]]
        """
        overrides = type(self).__call__ is not Module.__call__
        computation = self.__call__ if overrides else self.forward
        return compile_module(self, computation, input_types, weights)

    def input_types(self) -> Sequence[TensorType]:
        """The types that `compile` may be given: ``model.compile(*model.input_types())``.

        A class of modules says its own, on `device`.

        Raises:
            UnsupportedError: ML732, the class has not said them; a ``NotImplementedError``.

        Example:
            >>> from maxlab.experimental.nn import Linear
            >>> model = Linear(10, 5)
            >>> model.compile(*model.input_types()).graph.output_types[0].shape
            [Dim('batch'), Dim(5)]
        """
        name = type(self).__name__
        raise UnsupportedError(
            "ML732",
            f"{name} does not say the types of its inputs",
            fix=f"write def input_types(self): return [TensorType(...)] in {name}, or give compile "
            "the types",
        )

    # ------------------------------------------------------------ shown
    def __rich_repr__(self) -> Iterator[tuple[str, Any]]:
        """The names in the text of the module: its parameters' types and its children."""
        for name, value in states.attributes(self):
            if isinstance(value, Tensor):
                yield name, states.TypeText(value)
            elif isinstance(value, Module):
                yield name, value

    def __repr__(self) -> str:
        return states.text_of(self)


@overload
@dataclass_transform(eq_default=False)
def module_dataclass(cls: type[_M], /, *, repr: bool = False, **kwargs: Any) -> type[_M]: ...
@overload
def module_dataclass(
    cls: None = None, /, *, repr: bool = False, **kwargs: Any
) -> Callable[[type[_M]], type[_M]]: ...
def module_dataclass(cls: Any = None, /, *, repr: bool = False, **kwargs: Any) -> Any:
    """``cls`` as a data class of modules: its annotated names are the arguments of its constructor.

    Args:
        cls: A class derived from `Module`; without it, the decorator that takes one.
        repr: Whether modules print as data classes do; as other modules otherwise.
        **kwargs: For ``dataclasses.dataclass``. Modules are equal when they are the same object,
            unless ``eq=True`` is given.

    Raises:
        UnusableArgumentError: ML748, ``cls`` is no class of modules; a ``TypeError``.

    Example:
        >>> from maxlab.experimental.nn import Linear, Module, module_dataclass
        >>> @module_dataclass
        ... class Twice(Module):
        ...     inner: Linear
        ...     def forward(self, x):
        ...         return self.inner(self.inner(x))
        >>> Twice(Linear(3, 3, bias=False))
        Twice(inner=Linear(in_dim=Dim(3), out_dim=Dim(3), bias=False))
    """

    def decorated(given: type[_M]) -> type[_M]:
        states.check_class(given, Module)
        made: type[_M] = dataclasses.dataclass(given, repr=repr, **{"eq": False, **kwargs})
        return made

    return decorated if cls is None else decorated(cls)


def _tree(module: Module[..., Any]) -> Iterator[tuple[str, Module[..., Any]]]:
    """``module`` and what is below it, each with its path and a dot behind it."""
    inside: list[Module[..., Any]] = []

    def walk(path: str, module: Module[..., Any]) -> Iterator[tuple[str, Module[..., Any]]]:
        if any(module is outer for outer in inside):
            raise ModuleError(
                "ML731",
                f"{type(module).__name__}: the module is below itself, as {path[:-1]!r}",
                fix="keep what leads back to an outer module in a list or behind a function",
            )
        inside.append(module)
        yield path, module
        for name, child in module.children:
            yield from walk(f"{path}{name}.", child)
        inside.pop()

    return walk("", module)


def _once(module: Module[..., Any]) -> list[tuple[str, Module[..., Any]]]:
    """The entries of `_tree`, each module under its first path alone."""
    found: dict[int, tuple[str, Module[..., Any]]] = {}
    for path, each in _tree(module):
        found.setdefault(id(each), (path, each))
    return list(found.values())


def _set_all(values: Sequence[tuple[Module[..., Any], str, Any]], is_new: bool = False) -> None:
    """Set attributes of modules: ``(module, name, tensor)``, once all are known to be tensors.

    ``is_new`` says that nobody has the modules yet: those that are frozen are set too.
    """
    for module, name, value in values:
        states.check_tensor(f"{type(module).__name__}.{name}", value)
        parameters = getattr(type(module), "__dataclass_params__", None)
        if parameters is not None and parameters.frozen and not is_new:
            setattr(module, name, getattr(module, name))  # says that it is frozen
    for module, name, value in values:
        (object.__setattr__ if is_new else setattr)(module, name, value)


__all__ = ["Module", "module_dataclass"]
