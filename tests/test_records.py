"""`maxlab.records.dataclass` beside Python's: each class of a table is made by both, and what can
be seen of the two must be equal."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import operator
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any, ClassVar

import pytest

from maxlab import records

ROOT = Path(__file__).resolve().parents[1]
MAKERS = {"python": dataclasses.dataclass, "ours": records.dataclass}
Maker = Callable[..., Any]


def plain(maker: Maker, **options: Any) -> type:
    @maker(**options)
    class Made:
        """Some numbers."""

        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list)
        kind: ClassVar[int] = 7

        def total(self) -> int:
            return self.a + len(self.c)

    return Made


def bare(maker: Maker, **options: Any) -> type:
    @maker(**options)
    class Made:
        """Nothing inside."""

    return Made


def undocumented(maker: Maker, **options: Any) -> type:
    @maker(**options)
    class Made:
        self: int
        _set: int = 3
        _factory: int = 4

    return Made


def picky(maker: Maker, **options: Any) -> type:
    @maker(**options)
    class Made:
        """Fields that take part in some methods alone."""

        a: Any
        b: int = field(default=2, repr=False)
        c: int = field(default=3, compare=False)
        d: int = field(default=4, hash=False)
        e: list[int] = field(default_factory=lambda: [1], init=False, compare=False)
        f: int = field(default=5, init=False)
        g: int = field(default=6, kw_only=True)

    return Made


def late(maker: Maker, **options: Any) -> type:
    @maker(**options)
    class Made:  # noqa: PLW1641 - whether it has a hash is what is tried
        """A class with methods of its own."""

        a: int
        b: int = 0

        def __post_init__(self) -> None:
            if self.a < 0:
                raise ValueError("below zero")

        def __repr__(self) -> str:
            return "mine"

        def __eq__(self, other: object) -> bool:
            return isinstance(other, Made) and self.a == other.a

    return Made


def hashed(maker: Maker, **options: Any) -> type:
    @maker(**options)
    class Made:
        """A class with a hash of its own."""

        a: int

        def __hash__(self) -> int:
            return 5

    return Made


def inherited(maker: Maker, **options: Any) -> type:
    class Base:
        def __init__(self) -> None:
            raise AssertionError

    @maker(**options)
    class First(Base):
        """The first."""

        a: int

    @maker(**options)
    class Made(First):
        """The second."""

        b: int = 1

    return Made


def with_only_for_init(maker: Maker, **options: Any) -> type:
    @maker(**options)
    class Made:
        """A parameter that is no attribute."""

        a: dataclasses.InitVar[int]
        b: int = 0

        def __post_init__(self, a: int) -> None:
            object.__setattr__(self, "b", a * 2)

    return Made


TABLE = [plain, bare, undocumented, picky, late, hashed, inherited, with_only_for_init]
OPTIONS: list[dict[str, bool]] = [
    {},
    {"frozen": True},
    {"slots": True},
    {"frozen": True, "slots": True},
    {"frozen": True, "slots": True, "kw_only": True},
    {"eq": False},
    {"frozen": True, "eq": False},
    {"repr": False},
    {"order": True, "frozen": True},
    {"unsafe_hash": True},
]
GIVEN: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}),
    ((1,), {}),
    ((1,), {"b": 9}),
    ((-1,), {}),
    ((), {"a": 1}),
    ((), {"a": 2, "g": 3}),
    ((1, 2), {}),
    ((1, 2, [3]), {}),
    ((1, 2, 3, 4, 5), {}),
    ((float("nan"),), {}),
    ((), {"self": 5}),
    ((), {"nobody": 5}),
]


def outcome(work: Callable[..., Any], *args: Any, **kwargs: Any) -> tuple[str, Any]:
    """What ``work`` gives, or the error that it raises."""
    try:
        return "gives", work(*args, **kwargs)
    except Exception as error:
        return type(error).__name__, str(error)


def change(made: Any, name: str) -> Any:
    setattr(made, name, 8)
    return getattr(made, name)


def seen(cls: Any) -> list[Any]:
    """What can be seen of ``cls`` and of objects of it."""
    found: list[Any] = []
    objects = [outcome(cls, *given, **names) for given, names in GIVEN]
    for kind, made in objects:
        if kind != "gives":
            found.append((kind, made))
            continue
        found += [
            outcome(repr, made),
            [made == other for _, other in objects],
            made.__eq__(3),
            outcome(dataclasses.asdict, made),
            outcome(lambda one: repr(dataclasses.replace(one, b=10)), made),
            outcome(lambda one: repr(copy.copy(one)), made),
            outcome(lambda one: copy.deepcopy(one) == one, made),
            outcome(change, copy.copy(made), "b"),
            outcome(change, copy.copy(made), "nobody"),
            outcome(delattr, copy.copy(made), "a"),
            outcome(operator.lt, made, made),
            outcome(vars, made),
        ]
        if vars(cls).get("__hash__") is not None and "nan" not in repr(made):
            found.append(outcome(hash, made))
    # What looks at methods comes last: it compiles them.
    return [
        *found,
        str(inspect.signature(cls)),
        str(inspect.signature(cls.__init__)),
        cls.__init__.__annotations__ if "__init__" in vars(cls) else None,
        [(f.name, f.type, f.init, f.repr, f.compare, f.kw_only) for f in dataclasses.fields(cls)],
        cls.__match_args__,
        vars(cls).get("__slots__"),
        cls.__hash__ is None,
        [getattr(cls, name).__qualname__ for name in ("__init__", "__repr__", "__eq__")],
    ]


@pytest.mark.parametrize("calls", [0, 3, 10_000], ids=["at once", "soon", "never"])
@pytest.mark.parametrize("options", OPTIONS, ids=lambda given: "+".join(given) or "none")
@pytest.mark.parametrize("make", TABLE)
def test_a_class_is_as_pythons(
    make: Callable[..., type],
    options: dict[str, bool],
    calls: int,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(records, "CALLS", calls)  # a method is compiled then, or if it is looked at
    made = {name: outcome(make, maker, **options) for name, maker in MAKERS.items()}
    kinds = {kind for kind, _ in made.values()}
    assert len(kinds) == 1, made
    if kinds != {"gives"}:
        assert made["python"] == made["ours"]
        return
    theirs, ours = (seen(made[name][1]) for name in MAKERS)
    for one, other in zip(theirs, ours, strict=True):
        if "super(type, obj)" in repr(one):  # Python's fails before it can refuse the change
            assert other == one or other[0] == "FrozenInstanceError"
        elif "object at 0x" not in repr(one):
            assert repr(one) == repr(other)


def test_a_default_before_a_field_without_one_is_refused_when_the_class_is_made() -> None:
    def make(maker: Maker) -> type:
        @maker
        class Made:
            """Wrong."""

            a: int = 1
            b: int

        return Made

    for maker in MAKERS.values():
        with pytest.raises(TypeError, match="non-default argument 'b'.* follows default argument"):
            make(maker)


def test_one_default_is_not_shared() -> None:
    cls: Any = plain(records.dataclass)
    first, second = cls(1), cls(1)
    first.c.append(3)
    assert (second.c, first.total(), cls.kind) == ([], 2, 7)


def test_a_record_in_itself_is_written_as_dots() -> None:
    made: Any = plain(records.dataclass)(1)
    made.b = made
    assert repr(made).endswith("Made(a=1, b=..., c=[])")


def test_a_frozen_subclass_of_pythons_fits_a_record_and_others_do_not() -> None:
    base: Any = plain(records.dataclass, frozen=True)
    derived = dataclasses.make_dataclass("Derived", [("d", int, 0)], bases=(base,), frozen=True)
    assert repr(derived(1)).startswith("Derived(a=1, b='b', c=[], d=0)")
    with pytest.raises(TypeError, match="cannot inherit non-frozen"):
        dataclasses.make_dataclass("Derived", [("d", int, 0)], bases=(base,))


def test_a_subclass_may_set_what_is_no_field_of_a_frozen_record() -> None:
    base: Any = plain(records.dataclass, frozen=True)

    class Derived(base):  # type: ignore[misc]
        """Has more attributes."""

    made = Derived(1)
    made.more = 5
    with pytest.raises(dataclasses.FrozenInstanceError, match="cannot assign to field 'a'"):
        made.a = 2
    assert (made.more, made.a) == (5, 1)


def test_a_method_that_is_put_in_later_stays() -> None:
    cls: Any = plain(records.dataclass)
    read = vars(cls)["__init__"].__get__

    def own(self: Any) -> None:
        self.a = 9

    cls.__init__ = own
    read(None, cls)
    assert cls().a == 9


@records.dataclass(frozen=True, slots=True)
class Pickled:
    """A record that pickle finds by its name."""

    a: int
    b: tuple[int, ...] = ()


@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_frozen_records_with_slots_are_pickled(protocol: int) -> None:
    if protocol < 2:
        with pytest.raises(TypeError):
            pickle.dumps(dataclasses.make_dataclass("P", ["a"], slots=True)(1), protocol)
        return
    made = Pickled(3, (4,))
    assert pickle.loads(pickle.dumps(made, protocol)) == made


def test_threads_that_make_the_first_object_at_once_agree() -> None:
    for _ in range(20):
        cls: Any = plain(records.dataclass, frozen=True, slots=True)
        start = threading.Barrier(4)
        made: list[Any] = []

        def work(cls: Any = cls, start: threading.Barrier = start, made: list[Any] = made) -> None:
            start.wait()
            made.append((cls(1), hash(cls(1, "c", ())), repr(cls(1))))

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(made) == 4
        assert all(one == made[0] for one in made)


def test_a_method_is_compiled_when_it_was_called_often() -> None:
    program = (
        "import builtins\n"
        "from maxlab.records import CALLS, dataclass\n"
        "compiled = []\n"
        "before = builtins.exec\n"
        "builtins.exec = lambda *given: (compiled.append(given[0]), before(*given))[1]\n"
        "@dataclass(frozen=True, slots=True)\n"
        "class Made:\n"
        "    '''Numbers.'''\n"
        "    a: int\n"
        "made = [Made(n) for n in range(CALLS)]\n"
        "print(len(compiled))\n"
        "assert [one.a for one in made] == list(range(CALLS))\n"
        "Made(1)\n"
        "print(len(compiled), Made(1) == Made(1), Made(1) != Made(2))\n"
        "print(len({*made, *made}) == CALLS, len(compiled))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:3] == ["0", "1 True True", "True 2"]
