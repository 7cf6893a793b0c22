"""`maxlab.records.dataclass` beside that of the standard library: what it makes behaves alike."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import itertools
import pickle
import subprocess
import sys
from collections.abc import Callable
from dataclasses import field
from typing import Any, ClassVar

import pytest

from maxlab import records

Decorator = Callable[..., Any]


def family(dataclass: Decorator) -> dict[str, Any]:
    """Classes of every form that maxlab has, made by ``dataclass``."""

    @dataclass
    class Plain:
        a: int
        b: str = "b"
        c: list[int] = field(default_factory=list)
        kind: ClassVar[str] = "kind"
        hidden: int = field(default=3, repr=False, compare=False)
        late: int = field(init=False, default=7)

        def __post_init__(self) -> None:
            self.c.append(self.a)

    @dataclass(frozen=True)
    class Frozen:
        a: int
        b: tuple[int, ...] = ()

    @dataclass(frozen=True, slots=True)
    class Slotted:
        a: int
        b: float = 1.5
        c: dict[str, int] = field(default_factory=dict, compare=False)

        @property
        def twice(self) -> int:
            return 2 * self.a

    @dataclass(frozen=True, slots=True)
    class Derived(Slotted):
        d: int = 0
        b: float = 2.5

    @dataclass(slots=True)
    class Open:
        a: int
        late: int = field(init=False, default=7)

    @dataclass(eq=False)
    class ByIdentity:
        a: int

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Keywords:
        a: int
        b: int = 2

    @dataclass(frozen=True)
    class Mixed(Frozen):
        c: int = field(default=1, kw_only=True)
        d: int = 4

    @dataclass(repr=False)
    class Silent:
        a: int

        def __hash__(self) -> int:
            return self.a

    @dataclass(init=False)
    class Own:
        a: int

        def __init__(self) -> None:
            self.a = 1

    @dataclass(frozen=True, slots=True)
    class Compared:  # noqa: PLW1641 - what becomes of its hash is looked at
        a: int

        def __eq__(self, other: object) -> bool:
            return True

    class Under(Plain):
        pass

    return {name: made for name, made in locals().items() if isinstance(made, type)}


OURS, THEIRS = family(records.dataclass), family(dataclasses.dataclass)
CALLS: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
    ((), {}), ((1,), {}), ((2,), {}), ((1, 2), {}), ((1, 2, [3]), {}), ((), {"a": 1}),
    ((1,), {"b": 5}), ((1,), {"c": 5}), ((1,), {"z": 1}), ((1, 2, 3, 4, 5), {}),
]  # fmt: skip


def said(do: Callable[[], Any]) -> Any:
    """What ``do`` gives, or how it fails."""
    try:
        return do()
    except (TypeError, AttributeError) as error:
        return type(error), str(error)


def test_all_forms_are_made_here() -> None:
    made = {name for name, one in OURS.items() if "__record__" in one.__dict__}
    assert made == set(OURS) - {"Under"}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize(("args", "kwargs"), CALLS)
def test_instances_behave_alike(name: str, args: Any, kwargs: Any) -> None:
    def all_of(cls: Any) -> Any:
        made = cls(*copy.deepcopy(args), **copy.deepcopy(kwargs))
        other = cls(*copy.deepcopy(args), **copy.deepcopy(kwargs))
        return (
            said(lambda: repr(made)) if name != "Silent" else None,
            made == other, made != other, made == 1, said(lambda: hash(made) == hash(other)),
            said(lambda: dataclasses.asdict(made)),
            said(lambda: dataclasses.astuple(dataclasses.replace(made, a=9))),
            said(lambda: setattr(made, "a", 1)), said(lambda: delattr(made, "a")),
            isinstance(said(lambda: setattr(made, "new", 1)), tuple), hasattr(made, "__dict__"),
            said(lambda: dataclasses.asdict(copy.deepcopy(other))),
        )  # fmt: skip

    assert said(lambda: all_of(OURS[name])) == said(lambda: all_of(THEIRS[name]))


@pytest.mark.parametrize("name", OURS)
def test_classes_say_the_same(name: str) -> None:
    def all_of(cls: Any) -> Any:
        return (
            str(inspect.signature(cls)), cls.__match_args__, [
                (f.name, f.type, f.default, f.init, f.repr, f.compare, f.hash, f.kw_only)
                for f in dataclasses.fields(cls)
            ],
            str(cls.__dataclass_params__) if "Slot" not in name else None,
            cls.__dict__.get("__slots__"), cls.__name__, cls.__qualname__, cls.__doc__ is None,
        )  # fmt: skip

    ours, theirs = all_of(OURS[name]), all_of(THEIRS[name])
    assert ours[0:3] == theirs[0:3]
    assert ours[4:7] == theirs[4:7]


def test_defaults_are_members_of_classes_without_slots() -> None:
    for name, one in THEIRS.items():
        for member in ("a", "b", "late", "hidden"):
            expected = getattr(one, member, None)
            if type(expected) in (int, str, float):
                assert getattr(OURS[name], member) == expected, (name, member)


def test_equal_ones_are_one_key() -> None:
    pairs = [OURS["Frozen"](1, (2,)), OURS["Frozen"](1, (2,)), OURS["Frozen"](2, (2,))]
    assert len(set(pairs)) == 2
    assert OURS["Slotted"](1) != OURS["Derived"](1)


@records.dataclass(frozen=True, slots=True)
class Kept:
    """At the top of a module, as what is pickled has to be."""

    a: int
    b: tuple[int, ...] = (1, 2)


def test_pickles() -> None:
    for protocol in range(2, pickle.HIGHEST_PROTOCOL + 1):
        assert pickle.loads(pickle.dumps(Kept(3), protocol)) == Kept(3)


def test_methods_behind_others_still_work(monkeypatch: pytest.MonkeyPatch) -> None:
    cls = family(records.dataclass)["Frozen"]
    before, seen = cls.__init__, []

    def init(self: Any, *args: Any) -> None:
        seen.append(args)
        before(self, *args)

    monkeypatch.setattr(cls, "__init__", init)
    assert [cls(1).a, cls(2).a] == [1, 2]
    assert seen == [(1,), (2,)]


def test_what_the_standard_library_has_to_see_is_left_to_it() -> None:
    seen = []

    class Follows:
        def __init_subclass__(cls) -> None:
            seen.append(cls.__name__)

    @records.dataclass
    class Child(Follows):
        a: int

    @records.dataclass(order=True)
    class Ordered:
        a: int

    assert seen == ["Child"]
    assert "__record__" not in Child.__dict__
    assert Ordered(1) < Ordered(2)


def test_nothing_is_compiled_before_it_is_called() -> None:
    program = """
import builtins, sys
from dataclasses import field
from maxlab.records import dataclass
texts = []
sys.addaudithook(lambda event, args: texts.append(args) if event == "compile" else None)
@dataclass(frozen=True, slots=True)
class One:
    a: "int"
    b: "int" = 2
assert not texts, texts
assert One(1) == One(1)
assert len(texts) == 2, texts  # __init__ and __eq__
hash(One(1)), repr(One(1))
assert len(texts) == 3, texts
"""
    done = subprocess.run(
        [sys.executable, "-c", program], check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr


def test_pairs_of_unlike_classes_differ() -> None:
    for one, other in itertools.permutations(("Frozen", "Slotted", "Plain"), 2):
        assert OURS[one](1) != OURS[other](1)
