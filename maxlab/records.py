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
    _NO_METHODS = {"init": False, "repr": False, "eq": False}
    _OF_CLASSES = ("ClassVar", "typing.ClassVar")

    def dataclass(cls=None, /, **how):
        """The class ``cls`` with the methods of a class of data; see the standard library."""
        if cls is None:
            return lambda cls: dataclass(cls, **how)
        notes = vars(cls).get("__annotations__", {})
        if how.keys() <= _KNOWN and _is_plain(cls, notes):
            return _begun(cls, notes, how)
        return dataclasses.dataclass(cls, **how)

    def _is_plain(cls, notes):
        """Whether nobody but the standard library has to know of ``cls`` at once."""
        if type(cls) is not type or "__slots__" in cls.__dict__:
            return False
        for base in cls.__mro__[1:-1]:
            members = base.__dict__
            if "__init_subclass__" in members:
                return False
            if "__dataclass_fields__" in members and "__record__" not in members:
                return False
        return all(type(note) is str and "InitVar" not in note for note in notes.values())

    class _Record:
        """What a class is made of.

        Attributes:
            names: Its own fields, in order.
            defaults: What the class assigns to some of them.
            how: The parameters that `dataclass` was given.
            source: The name, the bases and the members of the class as it was written.
        """

        __slots__ = ("defaults", "how", "names", "source")

    def _begun(cls, notes, how):
        """``cls`` with functions that make its methods."""
        members = dict(cls.__dict__)
        record = _Record()
        record.how, record.source = how, (cls.__name__, cls.__bases__, members)
        record.names = [name for name, note in notes.items() if not note.startswith(_OF_CLASSES)]
        record.defaults = defaults = {}
        for name in record.names:
            given = getattr(cls, name, MISSING)
            if given is not MISSING and type(given) is not MemberDescriptorType:
                defaults[name] = given
        made = _methods(record, members)
        if how.get("slots"):
            inner = {**members, **made}
            fields = [name for name, *_ in _fields_of(cls)] if len(cls.__mro__) > 2 else []
            fields = dict.fromkeys((*fields, *record.names))
            taken = {name for base in cls.__mro__[1:-1] for name in _slots_of(base)}
            for name in (*fields, "__dict__", "__weakref__"):
                inner.pop(name, None)
            inner["__slots__"] = tuple(name for name in fields if name not in taken)
            inner["__qualname__"] = cls.__qualname__
            cls = type(cls.__name__, cls.__bases__, inner)
        else:
            for name, given in defaults.items():
                if type(given) is Field and name in members:
                    if given.default is MISSING:
                        delattr(cls, name)
                    else:
                        setattr(cls, name, given.default)
            for name, one in made.items():
                setattr(cls, name, one)
        for one in made.values():
            if isinstance(one, _Later):
                one.cls = cls
        return cls

    def _methods(record, members):
        """What `_begun` adds to a class."""
        how = record.how
        frozen, eq = how.get("frozen"), how.get("eq", True)
        made = {"__record__": record}
        for name in ("__dataclass_fields__", "__dataclass_params__", "__match_args__"):
            if name not in members:
                made[name] = _Told(name)
        if how.get("init", True):
            made["__init__"] = _first("__init__", _init_of, record)
            made["__signature__"] = _Signature()
        if how.get("repr", True) and "__repr__" not in members:
            made["__repr__"] = _first("__repr__", _repr_of, record)
        if eq and "__eq__" not in members:
            made["__eq__"] = _first("__eq__", _eq_of, record)
        if frozen:
            made["__setattr__"], made["__delattr__"] = _refusals(record)
            if how.get("slots"):
                made.setdefault("__getstate__", members.get("__getstate__", _state))
                made.setdefault("__setstate__", members.get("__setstate__", _set_state))
        if eq:
            written = members.get("__hash__", MISSING)
            if written is MISSING or (written is None and "__eq__" in members):
                made["__hash__"] = _first("__hash__", _hash_of, record) if frozen else None
        return made

    def _slots_of(base):
        slots = base.__dict__.get("__slots__", ())
        return (slots,) if isinstance(slots, str) else slots

    def _class_of(instance, record):
        """The class of ``instance``, or its base, that ``record`` is of."""
        for cls in type(instance).__mro__:
            if cls.__dict__.get("__record__") is record:
                return cls
        raise TypeError(f"{type(instance).__qualname__} is no {record.source[0]}")

    def _first(name, make, record):
        """The method ``name`` of the class of ``record``; ``make`` makes it at the first call."""
        made = None

        def first(self, *args, **kwargs):
            nonlocal made
            if made is None:
                cls = _class_of(self, record)
                found = make(cls)
                found.__name__, found.__qualname__ = name, f"{cls.__qualname__}.{name}"
                found.__module__ = cls.__module__
                made = found
                if cls.__dict__.get(name) is first:  # else somebody has put it behind another one
                    setattr(cls, name, made)
            return made(self, *args, **kwargs)

        first.__name__ = name
        return first

    class _Later:
        """An attribute of the class ``cls`` that is made when somebody asks for it."""

        __slots__ = ("cls",)

    class _Told(_Later):
        """One that the standard library makes."""

        __slots__ = ("name",)

        def __init__(self, name):
            self.name = name

        def __get__(self, instance, owner):
            """The attribute."""
            how = None
            if self.name != "__dataclass_params__":  # these are the same without methods
                how = _NO_METHODS
            found = getattr(_copy_of(self.cls, how), self.name)
            setattr(self.cls, self.name, found)
            return found

    class _Signature(_Later):
        """The signature of a class, which `inspect` asks for first."""

        __slots__ = ()

        def __get__(self, instance, owner):
            """The signature of the ``__init__`` that the standard library makes; None for what
            has another one, and for instances."""
            if instance is not None or owner.__init__ is not self.cls.__dict__["__init__"]:
                return None
            import inspect

            whole = inspect.signature(_copy_of(self.cls).__init__)
            return whole.replace(parameters=list(whole.parameters.values())[1:])

    def _copy_of(cls, without=None):
        """What the standard library makes of the class as it was written, without slots, and
        ``without`` some methods."""
        name, bases, members = cls.__record__.source
        left = ("__dict__", "__weakref__")
        copy = type(name, bases, {key: x for key, x in members.items() if key not in left})
        how = {**cls.__record__.how, "slots": False}
        if without is not None:
            how |= without
            if not any("__record__" in base.__dict__ for base in cls.__mro__[1:]):
                how["frozen"] = False
        return dataclasses.dataclass(copy, **how)

    def _fields_of(cls):
        """Of each field of ``cls``, inherited ones first: the name, its default or its `Field`, and
        whether it is for keywords alone."""
        found = {}
        for base in reversed(cls.__mro__[:-1]):
            record = base.__dict__.get("__record__")
            if record is not None:
                only = record.how.get("kw_only", False)
                for name in record.names:
                    given, by = record.defaults.get(name, MISSING), only
                    if type(given) is Field and given.kw_only is not MISSING:
                        by = given.kw_only
                    found[name] = name, given, by
        return list(found.values())

    def _made(name, lines, names):
        """The function ``name`` of ``lines``, which knows ``names``."""
        space = {}
        exec("\n".join(lines), names, space)
        return space[name]

    def _init_of(cls):
        names = {"_missing": MISSING, "_set": object.__setattr__}
        how = cls.__record__.how
        plain, only, lines = [], [], []
        for name, given, by in _fields_of(cls):
            value, default, factory, asked = name, given, MISSING, True
            if type(given) is Field:
                default, factory, asked = given.default, given.default_factory, given.init
            taken = name
            if factory is not MISSING:
                names[f"_f_{name}"] = factory
                value = f"_f_{name}()"
                if asked:
                    taken, value = f"{name}=_missing", f"{value} if {name} is _missing else {name}"
            elif default is not MISSING:
                names[f"_d_{name}"] = default
                taken, value = f"{name}=_d_{name}", name if asked else f"_d_{name}"
                if not asked and not how.get("slots"):
                    continue  # the class has it
            elif not asked:
                continue
            if asked:
                (only if by else plain).append(taken)
            lines.append(
                f" _set(_self, {name!r}, {value})"
                if how.get("frozen")
                else f" _self.{name} = {value}"
            )
        if hasattr(cls, "__post_init__"):
            lines.append(" _self.__post_init__()")
        given = ", ".join(["_self", *plain, *(["*", *only] if only else [])])
        return _made("__init__", [f"def __init__({given}):", *(lines or [" pass"])], names)

    def _chosen(cls, which):
        """The names of the fields of ``cls`` whose `Field` does not say no to ``which``."""
        return [
            name
            for name, given, _ in _fields_of(cls)
            if type(given) is not Field or getattr(given, which)
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
            if type(given) is not Field or (given.compare if given.hash is None else given.hash)
        ]
        lines = ["def __hash__(self):", f" return hash({_tuple('self', names)})"]
        return _made("__hash__", lines, {})

    def _repr_of(cls):
        from reprlib import recursive_repr

        names = _chosen(cls, "repr")

        @recursive_repr()
        def shown(self):
            inner = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
            return f"{self.__class__.__qualname__}({inner})"

        return shown

    def _refusals(record):
        """What lets nobody set or delete the fields of a frozen class."""

        def check(self, name, what):
            cls = _class_of(self, record)
            if type(self) is cls or any(name == field for field, *_ in _fields_of(cls)):
                raise FrozenInstanceError(f"cannot {what} field {name!r}")
            return super(cls, self)

        def set_one(self, name, value):
            check(self, name, "assign to").__setattr__(name, value)

        def delete_one(self, name):
            check(self, name, "delete").__delattr__(name)

        set_one.__name__, delete_one.__name__ = "__setattr__", "__delattr__"
        return set_one, delete_one

    def _state(self):
        return [getattr(self, name) for name, *_ in _fields_of(type(self))]

    def _set_state(self, state):
        for (name, *_), value in zip(_fields_of(type(self)), state, strict=True):
            object.__setattr__(self, name, value)


__all__ = ["dataclass"]
