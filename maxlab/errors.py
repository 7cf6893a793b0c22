"""Every exception maxlab raises for something a user can mend.

::

    MaxlabError                 has .code .what .at .why .fix
    ├── FileError       ML0xx   (OSError)                 a file that cannot be read or written
    │   └── MissingFileError    (FileNotFoundError)       no such file
    ├── DTypeError      ML1xx   (ValueError)              element types that do not fit together
    ├── ShapeError      ML2xx   (ValueError)              shapes that cannot be proved to fit
    │   ├── PlaceError          (IndexError)              an index out of the range of an axis
    │   └── DimDivisionError    (ZeroDivisionError)       a dim that is divided by zero
    ├── GraphError      ML3xx   (ValueError)              misuse of a graph or of its values
    │   ├── ArgumentError       (ValueError)              an argument of an op is out of its range
    │   │   ├── AxisError       (IndexError)              an axis outside of the rank
    │   │   ├── UnusableArgumentError (TypeError)         an argument that cannot be read
    │   │   └── EncodingError   (KeyError)                an encoding without blocks
    │   ├── NoGraphError        (LookupError)             used outside of any graph
    │   └── SeedError           (RuntimeError)            random numbers without a seed
    ├── ArgumentTypeError ML3xx (TypeError)               an argument of the wrong Python type
    ├── ParseError      ML35x   (ValueError)              text that is not a graph
    │   └── InvalidPathError    (RuntimeError)            a path that has no graph
    ├── TensorError     ML4xx   (ValueError)              views, copies and conversions of tensors
    ├── DeviceError     ML4xx   (RuntimeError, ValueError) a device that is not there or cannot do
    it
    ├── ToolchainError  ML5xx   (RuntimeError)            no compiler, or a compiler that failed
    │   └── CacheError          (OSError)                 the kernel cache cannot be used
    ├── InputError      ML6xx   (ValueError)              inputs of a model that do not match its
    types
    ├── InputTypeError  ML6xx   (TypeError)               inputs of the wrong Python type or name
    ├── WeightError     ML6xx   (ValueError)              missing weights, or of the wrong shape or
    dtype
    │   ├── MissingWeightError  (KeyError, AttributeError)
    │   └── WeightFileError     (and ExecutionError)      a mapped file that changed while in use
    ├── ExecutionError  ML65x   (ValueError, RuntimeError) found wrong while a model ran
    ├── ModuleError     ML7xx   (ValueError)              modules and their state dicts
    ├── RepositoryError ML11x   (ValueError)              a folder or repository of a model
    │   ├── MissingRepositoryError (FileNotFoundError)    one, or a file of it, that is not there
    │   └── UnreachableError    (ConnectionError)         a hub that cannot be asked now
    ├── CancelledError  ML897   (RuntimeError)            a work that somebody cancelled
    ├── MissingNameError ML96x  (AttributeError)          a name that is not there; says what is
    ├── MissingKeyError ML97x   (KeyError)                a key that is not there; says what is
    │   └── MissingEntryError   (IndexError, TypeError)   the same of a list
    ├── OutputsError    ML97x   (TypeError, IndexError)   outputs of a model used as one tensor
    ├── MissingPackageError ML979 (ImportError)           a package that is not installed
    ├── UnsupportedError ML9xx  (NotImplementedError)     named by the API, not in this version
    ├── DocumentError   ML8xx   (ValueError)              documents and messages of the notebook
    side
    └── NotebookError   ML82x   (ValueError)              a cell that a magic cannot use

Each message has up to four parts: *what* (expected ≠ got), *where* (the user's file or cell and
line), *why* (where the operands came from) and *fix*. Each code has a page in ``docs/errors/``.
"""

from __future__ import annotations

import reprlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn

_MOST_BITS = 512
_NO_HINTS: Mapping[str, str] = {}


class _Short(reprlib.Repr):
    """Short texts of values, whatever their size."""

    def repr_int(self, x: int, level: int) -> str:
        bits = x.bit_length()
        return repr(x) if bits <= _MOST_BITS else f"an int of {bits} bits"

    def repr_instance(self, x: Any, level: int) -> str:
        told = getattr(type(x), "__shown__", None)
        return super().repr_instance(x, level) if told is None else str(told(x))


def shown(value: object, most: int = 80) -> str:
    """``repr(value)`` for a message: at most ``most`` characters, whatever the object does.

    Long integers have no text in Python, deep lists none that its stack can make, and the ``repr``
    of an object may raise. Of an array no element is read, which might be far away, and which an
    array of another library may not even have: ours say their dtype, shape and device, and those of
    other libraries than NumPy are named by their type.

    Example:
        >>> shown([1.5, "x"]), shown(10**5000)
        ("[1.5, 'x']", 'an int of 16610 bits')
    """
    short = _Short()
    short.maxstring = short.maxother = short.maxlong = most
    kind = type(value)
    try:
        if isinstance(value, (list, tuple, dict, set, int)):
            text = short.repr(value)
        elif hasattr(kind, "__shown__"):
            text = kind.__shown__(value)
        elif hasattr(kind, "__dlpack__") and kind.__module__.partition(".")[0] != "numpy":
            text = f"<{kind.__module__}.{kind.__name__}>"
        else:
            text = repr(value)
    except Exception:
        text = f"<{type(value).__name__}>"
    if "\n" in text:
        text = " ".join(text.split())
    text = text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text if len(text) <= most else f"{text[: most - 1]}…"


@dataclass(frozen=True, slots=True)
class Location:
    """A place in the user's code: ``file`` (or cell), 1-based ``line``, 0-based ``column``.

    A cell of a notebook has an id too, ``cell``, which it keeps when it gets another number.
    ``end`` is the line and the column of the end of the expression, where both are known. Columns
    count bytes of UTF-8, as Python's do. Files of graphs do not keep ``end``.
    """

    file: str
    line: int
    column: int = 0
    text: str = ""
    function: str = ""
    end_column: int = 0
    cell: str = ""
    end: tuple[int, int] = field(default=(0, 0), compare=False)

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    def excerpt(self) -> str:
        """The source line with a caret under the expression; empty when the text is not known."""
        if not self.text:
            return ""
        stripped = self.text.lstrip()
        pad = max(self.column - (len(self.text) - len(stripped)), 0)
        width = max(self.end_column - self.column, 1) if self.end_column else 1
        width = min(width, max(len(stripped) - pad, 1))
        return f"    {stripped}\n    {' ' * pad}{'^' * width}"


class MaxlabError(Exception):
    """The base of all errors that name what was wrong, where, why and how to mend it.

    Args:
        code: The documented code, such as ``"ML203"``.
        what: One sentence with the expected and the found.
        at: The place in the user's code.
        why: Where the operands came from, a line each.
        fix: What to change.
    """

    def __init__(
        self,
        code: str,
        what: str,
        *,
        at: Location | None = None,
        why: Sequence[str] = (),
        fix: str | None = None,
    ) -> None:
        self.code = code
        self.what = what
        self.at = at
        self.why = tuple(why)
        self.fix = fix
        super().__init__(self._message())

    def _message(self) -> str:
        lines = [f"{self.what} [{self.code}]"]
        if self.at is not None:
            lines.append(f"  at {self.at}")
            excerpt = self.at.excerpt()
            if excerpt:
                lines.append(excerpt)
        lines.extend(f"  because {reason}" for reason in self.why)
        if self.fix:
            lines.append(f"  fix: {self.fix}")
        # Half of a surrogate pair, of a name or a file's name, can be written nowhere.
        return "\n".join(lines).encode("utf-8", "backslashreplace").decode("utf-8")

    def __str__(self) -> str:
        return self._message()

    def __reduce__(self) -> tuple[Any, ...]:
        # Exceptions are made again of their message by default, which is not what they take.
        return _again, (type(self), self.args), vars(self)

    def locate(self, at: Location | None) -> MaxlabError:
        """This error with ``at`` filled in where it had no place of its own."""
        if self.at is None and at is not None:
            self.at = at
            self.args = (self._message(),)
        return self

    def because(self, reason: str) -> MaxlabError:
        """This error with one more reason.

        Args:
            reason: The reason, a line.
        """
        self.why = (*self.why, reason)
        self.args = (self._message(),)
        return self


def _again(kind: type[MaxlabError], args: tuple[Any, ...]) -> MaxlabError:
    """An error of its pickled parts; what it says is set afterwards."""
    # Of several bases, the one with a layout of its own makes the object.
    error: MaxlabError = (OSError if issubclass(kind, OSError) else kind).__new__(kind, *args)
    error.args = args
    return error


class FileError(MaxlabError, OSError):
    """A file that cannot be read or written, or that is no regular file."""

    def __str__(self) -> str:  # OSError would print its own pieces
        return self._message()


class MissingFileError(FileError, FileNotFoundError):
    """A file that is not there."""


class DTypeError(MaxlabError, ValueError):
    """Element types that do not fit together without losing values."""


class ShapeError(MaxlabError, ValueError):
    """Shapes that cannot be proved to fit together."""


class PlaceError(ShapeError, IndexError):
    """An index that is out of the range of an axis."""


class DimDivisionError(ShapeError, ZeroDivisionError):
    """A dim that is divided by zero."""


class GraphError(MaxlabError, ValueError):
    """Misuse of a graph: a value of another graph, a second output, a name used twice."""


class ArgumentError(GraphError):
    """An argument of an op that is out of its range."""


class AxisError(ArgumentError, IndexError):
    """An axis that the operand's rank does not have."""


class UnusableArgumentError(ArgumentError, TypeError):
    """An argument whose reading raised an error that is not maxlab's."""


class EncodingError(ArgumentError, KeyError):
    """A quantization encoding that has no blocks of one size."""


class NoGraphError(GraphError, LookupError):
    """An op or a weight was used while no graph was being built."""


class SeedError(GraphError, RuntimeError):
    """Random numbers were asked for in a graph that has no seed."""


class ArgumentTypeError(MaxlabError, TypeError):
    """An argument of a Python type that the function does not take."""


class ResultsError(ArgumentError, TypeError):
    """A function of the user returned other values than it was to return."""


class ParseError(MaxlabError, ValueError):
    """Text that is not a graph, in MLIR's generic form or in a document."""


class InvalidPathError(ParseError, RuntimeError):
    """A path that has no graph."""


class TensorError(MaxlabError, ValueError):
    """A view, copy or conversion that a tensor does not allow."""


class DeviceError(MaxlabError, RuntimeError, ValueError):
    """A device that is not there, or that cannot do what was asked."""


class ToolchainError(MaxlabError, RuntimeError):
    """No C compiler was found, or it refused a generated kernel."""


class CacheError(ToolchainError, OSError):
    """The directory of compiled kernels cannot be written."""

    def __str__(self) -> str:  # OSError would print its own pieces
        return self._message()


class InputError(MaxlabError, ValueError):
    """An input of a model, or of a pipeline, that does not match what it takes.

    A validator of your own may raise it with a sentence alone, which then has the code ML181.

    Example:
        >>> str(InputError("only 1 image, got 2"))
        'only 1 image, got 2 [ML181]'
    """

    def __init__(
        self,
        code: str,
        what: str | None = None,
        *,
        at: Location | None = None,
        why: Sequence[str] = (),
        fix: str | None = None,
    ) -> None:
        known, said = ("ML181", code) if what is None else (code, what)
        super().__init__(known, said, at=at, why=why, fix=fix)


class InsufficientBlocksError(MaxlabError, RuntimeError):
    """A cache that has not enough pages for a sequence, now or ever."""


class InputTypeError(MaxlabError, TypeError):
    """An input of a Python type, or under a name, that the model does not take."""


class WeightError(MaxlabError, ValueError):
    """A weight of the wrong shape, dtype or layout, or one that is not in the registry."""


class MissingWeightError(WeightError, KeyError, AttributeError):
    """A weight that no file or registry has."""

    def __str__(self) -> str:  # KeyError would print the repr
        return self._message()


class ExecutionError(MaxlabError, ValueError, RuntimeError):
    """Something found wrong while a model was running, such as an index out of range."""


class WeightFileError(WeightError, ExecutionError):
    """A mapped weight file that changed, or lost a page, while it was in use."""


class RepositoryError(MaxlabError, ValueError):
    """A folder or an online repository of a model that cannot be used as asked."""


class MissingRepositoryError(RepositoryError, FileNotFoundError):
    """A folder or repository of a model, a revision or a file of it that is not there."""

    def __str__(self) -> str:  # FileNotFoundError would print its own pieces
        return self._message()


class UnreachableError(RepositoryError, ConnectionError):
    """A hub that cannot be asked now: no connection, no answer, a fault of its own, offline mode.

    What a cache holds may do instead.
    """

    def __str__(self) -> str:  # ConnectionError would print its own pieces
        return self._message()


class CancelledError(MaxlabError, RuntimeError):
    """A work that somebody cancelled while it was done."""


class ModuleError(MaxlabError, ValueError):
    """A module or a state dict that does not hold together."""


class MissingNameError(MaxlabError, AttributeError):
    """A name that is not there, with what there is instead."""


class MissingKeyError(MaxlabError, KeyError):
    """A key that a dict does not have, with those that it has."""

    def __str__(self) -> str:  # KeyError would print the repr
        return self._message()


class MissingEntryError(MissingKeyError, IndexError, TypeError):
    """A number or key that a list does not have."""


class OutputsError(MaxlabError, TypeError, IndexError):
    """A list of tensors, such as the outputs of a model, used as one tensor."""


class MissingPackageError(MaxlabError, ImportError):
    """A package that a part of maxlab needs is not installed."""


class UnsupportedError(MaxlabError, NotImplementedError):
    """Something that the API names and this version cannot do."""


class DocumentError(MaxlabError, ValueError):
    """A saved document or a message that is not what it claims to be."""


class QueryError(MaxlabError, ValueError):
    """A query that cannot be read, or that asks for what is not known.

    Attributes:
        query: The query.
        place: Index of the character that is wrong; None where the query itself can be read.
        said: What is wrong with it.
    """

    def __init__(
        self, code: str, said: str, query: str, place: int | None = None, fix: str | None = None
    ) -> None:
        self.query, self.place, self.said = query, place, said
        where = "" if place is None else f" at character {place + 1}"
        what = f"cannot read the query{where}: {said}" if place is not None else said
        super().__init__(code, what, fix=fix)

    def _message(self) -> str:
        first, *rest = super()._message().split("\n")
        if self.place is not None:
            before = self.query[: self.place].replace("\n", " ")
            line = f"{before}{self.query[self.place :]}".replace("\n", " ")
            rest = [f"    {line}", f"    {' ' * len(before)}^", *rest]
        return "\n".join([first, *rest])


class ShardCountError(MaxlabError, AssertionError, ValueError):
    """Another number of values than there are shards of a layer."""


class SpanError(MaxlabError, AssertionError, IndexError):
    """A span that is followed or marked while none is open."""


class NotebookError(MaxlabError, ValueError):
    """Raised when a cell gives a magic, such as ``%%cuda_sim``, something that it cannot use."""


def missing(
    owner: str, name: str, known: Iterable[str], hints: Mapping[str, str] = _NO_HINTS
) -> AttributeError:
    """The error for the attribute ``name`` that ``owner`` does not have.

    Args:
        owner: What was asked, as it is written: ``"ops"``.
        name: The name; one that begins with ``_`` gets the plain error of Python, as tools probe
            for such names.
        known: The names that there are.
        hints: What to write instead of names that other libraries have.

    Example:
        >>> from maxlab.errors import missing
        >>> missing("ops", "softmx", ["softmax", "sum"]).fix
        'did you mean ops.softmax?'
    """
    plain = f"{owner} has no attribute {name!r}"
    if name.startswith("_"):
        return AttributeError(plain)
    hint = hints.get(name)
    if hint is None:
        from difflib import get_close_matches

        public = [one for one in known if not one.startswith("_")]
        near = [one for one in public if one.lower() == name.lower()]
        near = near or get_close_matches(name, public, 3, 0.6)
        found = " or ".join(f"{owner}.{one}" for one in near)
        hint = f"did you mean {found}?" if near else f"dir({owner}) has the names that there are"
    return MissingNameError("ML964", plain, fix=hint)


class Elsewhere:
    """An attribute that is not there: reading it of an object raises what says what is instead.

    Called, as ``Graph.load(path)`` of the class, it raises the same.

    Args:
        code: The code of the error.
        what: One sentence about the attribute.
        fix: What to write instead.
    """

    def __init__(self, code: str, what: str, fix: str) -> None:
        self._parts = code, what, fix

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        if instance is None:
            return self
        return self()

    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        code, what, fix = self._parts
        raise MissingNameError(code, what, fix=fix)


def nearest(kind: type, owner: str, other: Callable[[str], str | None] = lambda name: None) -> None:
    """Let objects of ``kind`` answer a name that they do not have by the nearest names that they
    have.

    They are called ``owner`` in messages, or by their class where that is empty. ``other`` may give
    what there is instead of a name. Names that begin with ``_`` get the plain error of Python, as
    tools probe for such names.
    """

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807 - becomes a method
        called = owner or type(self).__name__
        if name.startswith("_"):
            raise AttributeError(f"{called} has no attribute {name!r}")
        for base in type(self).__mro__:
            if name in vars(base):  # it has raised an AttributeError of its own: let it again
                return vars(base)[name].__get__(self, type(self))
        known = [one for one in dir(self) if not isinstance(_static(self, one), Elsewhere)]
        instead = other(name)
        raise missing(called, name, known, {} if instead is None else {name: instead})

    setattr(kind, "__getattr__", __getattr__)  # noqa: B010 - mypy shall not think all names exist


def _static(of: object, name: str) -> object:
    for base in type(of).__mro__:
        if name in vars(base):
            return vars(base)[name]
    return None


def elsewhere(
    kind: type,
    owner: str,
    hints: Mapping[str, str],
    other: Callable[[str], str | None] = lambda name: None,
) -> None:
    """Let objects of ``kind``, called ``owner`` in messages, say for each name among ``hints`` that
    they do not have what there is instead, for any other what ``other`` gives, or the nearest
    names."""
    # A metaclass of enums looks for near names in its ``__getattr__``, which hasattr would ask.
    metaclass: type = type(kind)
    known = {name for one in (*kind.__mro__, *metaclass.__mro__) for name in vars(one)}
    for name, fix in hints.items():
        if name not in known:
            what = f"{owner} has no attribute {name!r}"
            setattr(kind, name, Elsewhere("ML964", what, fix))
    nearest(kind, owner, other)


def unlisted(kind: type, owner: str, fix: str) -> None:
    """Let objects of ``kind`` refuse ``len``, loops, ``in`` and indices with ML973, a TypeError,
    whose fix is ``fix``. They stay true: ``if model:`` asks whether there is one.

    Args:
        kind: The class.
        owner: What its objects are called in messages.
        fix: What to write instead.
    """

    def refusing(what: str) -> Callable[..., NoReturn]:
        def refuse(self: object, *args: object) -> NoReturn:
            said = f"{what}: a {owner} is neither a list nor a dict"
            raise ArgumentTypeError("ML973", said, fix=fix)

        return refuse

    for method, what in {
        "__len__": f"len({owner})",
        "__iter__": f"a loop over a {owner}",
        "__contains__": f"`in` on a {owner}",
        "__getitem__": f"{owner}[...]",
    }.items():
        setattr(kind, method, refusing(what))
    kind.__bool__ = lambda self: True  # type: ignore[attr-defined]  # else it would ask __len__


NO_GRADIENTS = ("backward", "grad", "requires_grad_", "grad_fn", "retain_grad", "zero_grad")
"""Names by which PyTorch trains."""


def untrained(kind: type, owner: str, names: Iterable[str] = NO_GRADIENTS) -> None:
    """Let objects of ``kind`` say for each of ``names`` that nothing is trained here."""
    for name in names:
        setattr(
            kind,
            name,
            Elsewhere(
                "ML962",
                f"{owner}.{name}: graphs compute no gradients",
                "train with PyTorch, then run the module with maxlab.torch.load(module, x)",
            ),
        )
