"""`dataclass`, as that of the standard library, with methods that are made when they are first
called.

A process that computes one number defines 150 classes of data, compares few of them and never
prints most. The standard library compiles six methods for each, which took a third of the time that
the process spends in maxlab. Here a class begins with short functions that make the method, put it
in their own place, and call it.

What asks a class for its fields, its parameters or its signature gets those that the standard
library gives, from a copy of the class that it makes then. Classes that it has to see at once, such
as those with a metaclass, bases that follow their subclasses, or parameters that are not known
here, are made by it as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dataclasses import dataclass
else:
    import dataclasses
    from dataclasses import MISSING, Field, FrozenInstanceError
    from types import MemberDescriptorType

    _KNOWN = frozenset(("init", "repr", "eq", "frozen", "slots", "kw_only"))
    _LATER = ("__dataclass_fields__", "__dataclass_params__", "__match_args__")

    def dataclass(cls=None, /, **how):
        """The class ``cls`` with the methods of a class of data; see the standard library."""

        def made(cls):
            if how.keys() <= _KNOWN and _is_plain(cls):
                return _begun(cls, how)
            return dataclasses.dataclass(cls, **how)

        return made if cls is None else made(cls)

    def _is_plain(cls):
        """Whether nobody but the standard library has to know of ``cls`` at once."""
        if type(cls) is not type or "__slots__" in cls.__dict__:
            return False
        for base in cls.__mro__[1:-1]:
            if "__init_subclass__" in base.__dict__:
                return False
            if "__dataclass_fields__" in base.__dict__ and "__record__" not in base.__dict__:
                return False
        notes = cls.__dict__.get("__annotations__", {})
        return all(isinstance(note, str) and "InitVar" not in note for note in notes.values())

    class _Record:
        """What a class is made of: its own fields and their defaults, in order.

        Attributes:
            names: Its own fields.
            defaults: What the class assigns to some of them.
            how: The parameters that `dataclass` was given.
            source: The name, the bases and the members of the class as it was written.
        """

        __slots__ = ("defaults", "how", "names", "source")

        def __init__(self, cls, how):
            notes = cls.__dict__.get("__annotations__", {})
            self.names = [n for n, note in notes.items() if not _is_of_class(note)]
            found = ((name, getattr(cls, name, MISSING)) for name in self.names)
            self.defaults = {
                name: given
                for name, given in found
                if given is not MISSING and type(given) is not MemberDescriptorType
            }
            self.how = how
            self.source = cls.__name__, cls.__bases__, dict(cls.__dict__)

    def _is_of_class(note):
        return note.startswith(("ClassVar", "typing.ClassVar"))

    def _begun(cls, how):
        """``cls`` with functions that make its methods."""
        record = _Record(cls, how)
        members = record.source[2]
        if how.get("slots"):
            taken = {name for base in cls.__mro__[1:-1] for name in _slots_of(base)}
            fields = dict.fromkeys((*(name for name, *_ in _fields_of(cls)), *record.names))
            inner = {key: value for key, value in members.items() if key not in fields}
            inner.pop("__dict__", None)
            inner.pop("__weakref__", None)
            inner["__slots__"] = tuple(name for name in fields if name not in taken)
            name = cls.__qualname__
            cls = type(cls.__name__, cls.__bases__, inner)
            cls.__qualname__ = name
        else:
            for name, default in record.defaults.items():
                if isinstance(default, Field) and name in members:
                    if default.default is MISSING:
                        delattr(cls, name)
                    else:
                        setattr(cls, name, default.default)
        cls.__record__ = record
        frozen, eq = how.get("frozen", False), how.get("eq", True)
        for name in _LATER:
            if name not in cls.__dict__:
                setattr(cls, name, _Later(cls, name))
        if how.get("init", True):
            _put(cls, "__init__", _init_of)
            cls.__signature__ = _Signature(cls)
        if how.get("repr", True) and "__repr__" not in members:
            _put(cls, "__repr__", _repr_of)
        if eq and "__eq__" not in members:
            _put(cls, "__eq__", _eq_of)
        if frozen:
            _freeze(cls)
        if eq:
            written = members.get("__hash__", MISSING)
            if written is MISSING or (written is None and "__eq__" in members):
                if frozen:
                    _put(cls, "__hash__", _hash_of)
                else:
                    cls.__hash__ = None
        return cls

    def _slots_of(base):
        slots = base.__dict__.get("__slots__", ())
        return (slots,) if isinstance(slots, str) else slots

    def _put(cls, name, make):
        """Let ``cls`` have a method that ``make`` makes when it is first called."""

        made = None

        def first(self, *args, **kwargs):
            nonlocal made
            if made is None:
                made = make(cls)
                made.__name__, made.__qualname__ = name, f"{cls.__qualname__}.{name}"
                made.__module__ = cls.__module__
            if cls.__dict__.get(name) is first:  # else somebody has put it behind another one
                setattr(cls, name, made)
            return made(self, *args, **kwargs)

        first.__name__, first.__qualname__ = name, f"{cls.__qualname__}.{name}"
        setattr(cls, name, first)

    class _Later:
        """An attribute of a class that the standard library gives when somebody asks for it."""

        __slots__ = ("cls", "name")

        def __init__(self, cls, name):
            self.cls, self.name = cls, name

        def __get__(self, instance, owner):
            """The attribute."""
            found = _copy_of(self.cls)
            for name in _LATER:
                if isinstance(self.cls.__dict__.get(name), _Later):
                    setattr(self.cls, name, found.__dict__[name])
            return self.cls.__dict__[self.name]

    class _Signature:
        """The signature of a class, which `inspect` asks for first."""

        __slots__ = ("cls",)

        def __init__(self, cls):
            self.cls = cls

        def __get__(self, instance, owner):
            """The signature of the ``__init__`` that the standard library makes; None for what
            has another one, and for instances."""
            cls = self.cls
            if instance is not None or owner.__init__ is not cls.__dict__["__init__"]:
                return None
            import inspect

            whole = inspect.signature(_copy_of(cls).__init__)
            return whole.replace(parameters=list(whole.parameters.values())[1:])

    def _copy_of(cls):
        """What the standard library makes of the class as it was written, without slots."""
        name, bases, members = cls.__record__.source
        left = ("__dict__", "__weakref__")
        copy = type(name, bases, {key: x for key, x in members.items() if key not in left})
        return dataclasses.dataclass(copy, **{**cls.__record__.how, "slots": False})

    def _fields_of(cls):
        """Of each field of ``cls``, inherited ones first: the name, its default or its `Field`, and
        whether it is for keywords alone."""
        found = {}
        for base in reversed(cls.__mro__[:-1]):
            record = base.__dict__.get("__record__")
            if record is not None:
                only = record.how.get("kw_only", False)
                for name in record.names:
                    given = record.defaults.get(name, MISSING)
                    by = only
                    if isinstance(given, Field):
                        by = only if given.kw_only is MISSING else given.kw_only
                    found[name] = (given, by)
        return [(name, *rest) for name, rest in found.items()]

    def _made(name, lines, names):
        """The function ``name`` of ``lines``, which knows ``names``."""
        space = {}
        exec("\n".join(lines), names, space)
        return space[name]

    def _init_of(cls):
        names = {"_missing": MISSING, "_set": object.__setattr__}
        plain, only, lines = [], [], []
        frozen = cls.__record__.how.get("frozen", False)
        for name, given, by in _fields_of(cls):
            value, asked = name, True
            default, factory = given, MISSING
            if isinstance(given, Field):
                default, factory, asked = given.default, given.default_factory, given.init
            if factory is not MISSING:
                names[f"_f_{name}"] = factory
                value = f"_f_{name}()"
                if asked:
                    value = f"{value} if {name} is _missing else {name}"
                    (only if by else plain).append(f"{name}=_missing")
            elif default is not MISSING:
                names[f"_d_{name}"] = default
                if asked:
                    (only if by else plain).append(f"{name}=_d_{name}")
                elif cls.__record__.how.get("slots"):
                    value = f"_d_{name}"
                else:
                    continue
            elif asked:
                (only if by else plain).append(name)
            else:
                continue
            lines.append(
                f" _set(_self, {name!r}, {value})" if frozen else f" _self.{name} = {value}"
            )
        if hasattr(cls, "__post_init__"):
            lines.append(" _self.__post_init__()")
        taken = ", ".join(["_self", *plain, *(["*", *only] if only else [])])
        return _made("__init__", [f"def __init__({taken}):", *(lines or [" pass"])], names)

    def _chosen(cls, which):
        """The names of the fields of ``cls`` whose `Field` does not say no to ``which``."""
        return [
            name
            for name, given, _ in _fields_of(cls)
            if not isinstance(given, Field) or getattr(given, which)
        ]

    def _tuple(who, names):
        return "(" + "".join(f"{who}.{name}, " for name in names) + ")"

    def _eq_of(cls):
        names = _chosen(cls, "compare")
        lines = [
            "def __eq__(self, other):",
            " if other.__class__ is self.__class__:",
            f"  return {_tuple('self', names)} == {_tuple('other', names)}",
            " return NotImplemented",
        ]
        return _made("__eq__", lines, {})

    def _hash_of(cls):
        names = [
            name
            for name, given, _ in _fields_of(cls)
            if not isinstance(given, Field) or (given.compare if given.hash is None else given.hash)
        ]
        return _made(
            "__hash__", ["def __hash__(self):", f" return hash({_tuple('self', names)})"], {}
        )

    def _repr_of(cls):
        from reprlib import recursive_repr

        names = _chosen(cls, "repr")

        @recursive_repr()
        def __repr__(self):
            inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
            return f"{self.__class__.__qualname__}({inner})"

        return __repr__

    def _freeze(cls):
        """Let nobody change fields of ``cls``; those with slots are copied by their fields."""

        def refuse(self, name):
            if type(self) is cls:
                return True
            return any(name == field for field, *_ in _fields_of(cls))

        def __setattr__(self, name, value):
            if refuse(self, name):
                raise FrozenInstanceError(f"cannot assign to field {name!r}")
            super(cls, self).__setattr__(name, value)

        def __delattr__(self, name):
            if refuse(self, name):
                raise FrozenInstanceError(f"cannot delete field {name!r}")
            super(cls, self).__delattr__(name)

        cls.__setattr__, cls.__delattr__ = __setattr__, __delattr__
        if cls.__record__.how.get("slots"):

            def __getstate__(self):
                return [getattr(self, name) for name, *_ in _fields_of(type(self))]

            def __setstate__(self, state):
                for (name, *_), value in zip(_fields_of(type(self)), state, strict=True):
                    object.__setattr__(self, name, value)

            for method in (__getstate__, __setstate__):
                if method.__name__ not in cls.__dict__:
                    setattr(cls, method.__name__, method)


__all__ = ["dataclass"]
