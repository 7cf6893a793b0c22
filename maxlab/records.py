"""`dataclass` as Python's, for classes that are defined when a process starts.

Python's writes the methods of a class as text and compiles up to six of them, about 0.3 ms for each
class, whether anybody makes an object of it or not. This one compiles a method when it has been
called `CALLS` times, or when something looks at it. Type checkers see Python's. Objects, fields,
signatures and errors are the same; `dataclasses.fields`, ``replace`` and ``asdict`` work.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import MISSING, Field, FrozenInstanceError, fields
from operator import attrgetter
from reprlib import recursive_repr
from types import MemberDescriptorType, MethodType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dataclasses import dataclass
else:

    def dataclass(cls=None, /, **options):
        """The class with the methods that its fields ask for.

        Args:
            cls: The class.
            **options: As ``dataclasses.dataclass`` takes them. ``frozen``, ``slots``, ``kw_only``,
                ``eq``, ``repr`` and ``init`` cost little; a class with another one, with fields of
                ``InitVar``, or that inherits from a dataclass, is made by Python's.

        Example:
            >>> from maxlab.records import dataclass
            >>> @dataclass(frozen=True, slots=True)
            ... class Point:
            ...     x: int
            ...     y: int = 0
            >>> Point(1), Point(1) == Point(1, 0)
            (Point(x=1, y=0), True)
        """
        return _made(cls, **options) if cls is not None else lambda given: _made(given, **options)


def _made(
    cls: type,
    *,
    init: bool = True,
    repr: bool = True,
    eq: bool = True,
    frozen: bool = False,
    slots: bool = False,
    kw_only: bool = False,
    **rare: Any,
) -> type:
    if rare or not _is_plain(cls):
        whole: Callable[[type], type] = dataclasses.dataclass(
            init=init, repr=repr, eq=eq, frozen=frozen, slots=slots, kw_only=kw_only, **rare
        )
        return whole(cls)
    undocumented = cls.__doc__ is None
    if undocumented:
        cls.__doc__ = cls.__name__  # else Python reads the signature, which is not there yet
    bare: Callable[[type], type] = dataclasses.dataclass(
        init=False, repr=False, eq=False, slots=slots, kw_only=kw_only
    )
    made: Any = bare(cls)
    if undocumented:
        made.__doc__ = None
    parameters = made.__dataclass_params__
    parameters.init, parameters.repr, parameters.eq, parameters.frozen = init, repr, eq, frozen
    known = fields(made)
    own = vars(made)
    if init:
        _require_order(made, known)
        if "__init__" not in own:
            make = _init_of_frozen if frozen else _init
            made.__init__ = _Later(made, "__init__", make, _slow_init)
    if repr and "__repr__" not in own:
        made.__repr__ = _Later(made, "__repr__", _repr)
    # Python has set ``__hash__`` to None for a class that has ``__eq__`` alone.
    has_hash = "__hash__" in own and not (own["__hash__"] is None and "__eq__" in own)
    if eq and "__eq__" not in own:
        made.__eq__ = _Later(made, "__eq__", _eq, _slow_eq)
    if eq and not has_hash:
        made.__hash__ = _Later(made, "__hash__", _hash, _slow_hash) if frozen else None
    if frozen:
        _freeze(made, frozenset([field.name for field in known]))
        if slots:
            _pickle(made, [field.name for field in known])
    return made  # type: ignore[no-any-return]


def _is_plain(cls: type) -> bool:
    """Whether ``cls`` has fields of its own alone, each of an attribute."""
    if any(hasattr(base, "__dataclass_fields__") for base in cls.__mro__[1:]):
        return False
    return not any("InitVar" in str(kind) for kind in cls.__annotations__.values())


def _is_required(field: Field[Any]) -> bool:
    """Whether ``field`` has neither a default nor a function that makes one."""
    return field.default is MISSING and field.default_factory is MISSING


def _require_order(cls: type, known: tuple[Field[Any], ...]) -> None:
    """Raises if a field without a default stands behind one with one.

    Raises:
        TypeError: As Python's ``dataclass`` raises it.
    """
    has_default = ""
    for field in known:
        if not field.init or field.kw_only:
            continue
        if not _is_required(field):
            has_default = field.name
        elif has_default:
            raise TypeError(
                f"non-default argument {field.name!r} of {cls.__qualname__} follows default "
                f"argument {has_default!r}"
            )


# ---------------------------------------------------------------- methods that are compiled later
CALLS = 32
"""Calls of a method before it is compiled, which takes as long as so many slow ones."""

Slow = Callable[..., Any]


class _Later:
    """Stands for a method of a class until it has been called often, or something looks at it.

    Args:
        cls: The class.
        name: The name of the method.
        make: Compiles the method.
        slow: Makes a function that does the same and takes longer; it is given what compiles the
            method, for calls that it cannot do.
    """

    def __init__(
        self,
        cls: type,
        name: str,
        make: Callable[[type], Any],
        slow: Callable[[type, Callable[[], Any]], Slow] | None = None,
    ) -> None:
        self._cls = cls
        self._name = name
        self._make = make
        self._slow = slow
        self._does: Slow | None = None
        self._left = CALLS if slow is not None else 0

    def __get__(self, object: Any, owner: type | None = None) -> Any:
        if object is None or self._left <= 0 or self._slow is None:
            return self._made().__get__(object, owner)
        self._left -= 1
        if self._does is None:
            self._does = self._slow(self._cls, self._made)
        return MethodType(self._does, object)

    def _made(self) -> Any:
        """The method, which from now on stands in the class."""
        made = self._make(self._cls)
        made.__qualname__ = f"{self._cls.__qualname__}.{self._name}"
        if vars(self._cls).get(self._name) is self:  # not another one since
            setattr(self._cls, self._name, made)
        return made


def _slow_init(cls: type, compiled: Callable[[], Any]) -> Slow:
    known = fields(cls)
    given = [field.name for field in known if field.init and not field.kw_only]
    by_name = {field.name for field in known if field.init}
    required = {field.name for field in known if field.init and _is_required(field)}
    places = [
        (field.name, _putting(cls, field), field.default, field.default_factory, field.init)
        for field in known
    ]
    has_more = hasattr(cls, "__post_init__")

    def init(self: Any, /, *args: Any, **kwargs: Any) -> None:
        values = kwargs
        if args:
            values = dict(zip(given, args, strict=False))
            if len(args) > len(given) or not values.keys().isdisjoint(kwargs):
                compiled()(self, *args, **kwargs)  # raises as Python does
                return
            values.update(kwargs)
        if not required <= values.keys() <= by_name:
            compiled()(self, *args, **kwargs)  # the same
            return
        for name, (put, is_slot), default, factory, is_given in places:
            if name in values:
                put(self, values[name])
            elif factory is not MISSING:
                put(self, factory())
            elif default is not MISSING and (is_slot or is_given):
                put(self, default)
        if has_more:
            self.__post_init__()

    return init


def _putting(cls: type, field: Field[Any]) -> tuple[Callable[[Any, Any], None], bool]:
    """A function that sets ``field`` of an object of ``cls``, frozen or not, and whether it has a
    slot."""
    name = field.name
    member = getattr(cls, name, None)
    if isinstance(member, MemberDescriptorType):
        return member.__set__, True
    return lambda one, value: object.__setattr__(one, name, value), False


def _values(names: list[str]) -> Callable[[Any], Any]:
    """A function that gives the tuple of the attributes ``names`` of an object."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda one: tuple([getattr(one, name) for name in names])


def _slow_eq(cls: type, compiled: Callable[[], Any]) -> Slow:
    values = _values(_compared(cls))

    def eq(self: Any, other: Any) -> Any:
        if other.__class__ is self.__class__:
            return values(self) == values(other)
        return NotImplemented

    return eq


def _slow_hash(cls: type, compiled: Callable[[], Any]) -> Slow:
    values = _values(_hashed(cls))
    return lambda self: hash(values(self))


def _compiled(cls: type, head: str, body: str, **names: Any) -> Any:
    """The method of ``cls`` with this ``head`` and ``body``, which read ``names``."""
    names["__name__"] = cls.__module__
    exec(f"def {head}:\n{body}", names)
    return names[head.partition("(")[0]]


class _Factory:
    """The default of a field whose default is made for each object."""

    def __repr__(self) -> str:
        return "<factory>"


_FACTORY = _Factory()


def _init(cls: type, frozen: bool = False) -> Any:
    known = fields(cls)
    receiver = "self" if all(field.name != "self" for field in known) else "__dataclass_self__"
    names: dict[str, Any] = {}
    given, by_name, lines = [receiver], ["*"], []
    for number, field in enumerate(known):
        name = value = field.name
        default = ""
        if field.default_factory is not MISSING:
            names[f"__f{number}__"] = field.default_factory
            default = "=__factory__"
            value = f"__f{number}__() if {name} is __factory__ else {name}"
            if not field.init:
                value = f"__f{number}__()"
        elif field.default is not MISSING:
            names[f"__d{number}__"] = field.default
            default = f"=__d{number}__"
            if not field.init:
                value = f"__d{number}__"
        member = getattr(cls, name, None)
        slot = member if isinstance(member, MemberDescriptorType) else None
        is_unset = not field.init and field.default_factory is MISSING
        if is_unset and (field.default is MISSING or slot is None):
            continue  # without slots, the default is an attribute of the class
        if field.init:
            (by_name if field.kw_only else given).append(name + default)
        if not frozen:
            lines.append(f" {receiver}.{name} = {value}")
        elif slot is not None:
            names[f"__s{number}__"] = slot.__set__
            lines.append(f" __s{number}__({receiver}, {value})")
        else:
            lines.append(f" __set__({receiver}, {name!r}, {value})")
    if hasattr(cls, "__post_init__"):
        lines.append(f" {receiver}.__post_init__()")
    given += by_name if len(by_name) > 1 else []
    body = "\n".join(lines) or " pass"
    head = f"__init__({', '.join(given)})"
    made = _compiled(cls, head, body, __factory__=_FACTORY, __set__=object.__setattr__, **names)
    kinds = {field.name: field.type for field in known if field.init}
    made.__annotations__ = {**kinds, "return": None}
    return made


def _init_of_frozen(cls: type) -> Any:
    return _init(cls, frozen=True)


def _repr(cls: type) -> Any:
    names = [field.name for field in fields(cls) if field.repr]
    told = ", ".join([f"{name}={{self.{name}!r}}" for name in names])
    body = f" return f'{{self.__class__.__qualname__}}({told})'"
    return recursive_repr()(_compiled(cls, "__repr__(self)", body))


def _compared(cls: type) -> list[str]:
    return [field.name for field in fields(cls) if field.compare]


def _hashed(cls: type) -> list[str]:
    return [f.name for f in fields(cls) if (f.compare if f.hash is None else f.hash)]


def _text(receiver: str, names: list[str]) -> str:
    """The text of a tuple of attributes."""
    return "(" + "".join([f"{receiver}.{name}, " for name in names]) + ")"


def _eq(cls: type) -> Any:
    names = _compared(cls)
    body = (
        " if other.__class__ is self.__class__:\n"
        f"  return {_text('self', names)} == {_text('other', names)}\n return NotImplemented"
    )
    return _compiled(cls, "__eq__(self, other)", body)


def _hash(cls: type) -> Any:
    return _compiled(cls, "__hash__(self)", f" return hash({_text('self', _hashed(cls))})")


# ---------------------------------------------------------------- methods of frozen classes
def _freeze(cls: Any, names: frozenset[str]) -> None:
    """Lets objects of ``cls`` refuse changes of their fields."""
    for name in ("__setattr__", "__delattr__"):
        if name in vars(cls):
            raise TypeError(f"Cannot overwrite attribute {name} in class {cls.__name__}")

    def __setattr__(self: Any, name: str, value: Any) -> None:  # noqa: N807 - a method
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")
        super(cls, self).__setattr__(name, value)

    def __delattr__(self: Any, name: str) -> None:  # noqa: N807 - a method
        if type(self) is cls or name in names:
            raise FrozenInstanceError(f"cannot delete field {name!r}")
        super(cls, self).__delattr__(name)

    cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__


def _pickle(cls: Any, names: list[str]) -> None:
    """Lets frozen objects of ``cls``, which have no ``__dict__``, be pickled and copied."""

    def __getstate__(self: Any) -> list[Any]:  # noqa: N807 - a method
        return [getattr(self, name) for name in names]

    def __setstate__(self: Any, state: list[Any]) -> None:  # noqa: N807 - a method
        for name, value in zip(names, state, strict=True):
            object.__setattr__(self, name, value)

    own = vars(cls)
    if "__getstate__" not in own:
        cls.__getstate__ = __getstate__
    if "__setstate__" not in own:
        cls.__setstate__ = __setstate__


__all__ = ["dataclass"]
