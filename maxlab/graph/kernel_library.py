"""``KernelLibrary``: ops that users declare above their own C and CUDA, in files, folders, archives
or texts."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from maxlab import files
from maxlab.errors import (
    ArgumentError,
    ArgumentTypeError,
    FileError,
    GraphError,
    Location,
    MaxlabError,
    shown,
)
from maxlab.ir import ChainType, Op
from maxlab.ir import Value as IrValue
from maxlab.opset.custom import (
    DECLARED,
    INPLACE,
    OPS,
    REFERENCES,
    bound_of,
    complete,
    is_effect,
    require_unchanging,
)
from maxlab.opset.inplace import as_tensors, require_apart, require_buffers

if TYPE_CHECKING:
    from maxlab.opset.declarations import Declaration
    from maxlab.opset.opaques import Opaque

SUFFIXES = (".c", ".cu")
MOST_LOOKED_AT = 10_000
"""Files and folders below a folder of kernels: ``/`` has millions, and nobody means them."""
"""The files of a folder that are read."""
PACKAGE = ".mxpkg"
MANIFEST = "manifest.json"
_FORMAT = 1
_LARGEST = 1 << 24


class KernelLibrary:
    """The custom ops that a graph may use.

    Args:
        context: Kept for compatibility; not looked at.
        paths: Files, folders or archives to load.

    Raises:
        ArgumentError: ML763, a path without a kernel library.
        ParseError: ML761, a declaration that cannot be read, with its line.
        GraphError: ML762, two declarations of one name.

    Example:
        >>> library = KernelLibrary()
        >>> _ = library.add_source('''
        ... // @op double(x: float32[n]) -> (y: float32[n])
        ... // @both
        ... store(y, i, 2 * load(x, i));
        ... ''')
        >>> print(library["double"])
        double(x: float32[n]) -> (y: float32[n])
    """

    def __init__(self, context: Any = None, paths: Iterable[Path | str] = ()) -> None:
        self._paths: list[Path] = []
        self._ops: dict[str, Declaration] = {}
        self._types: dict[str, Sequence[Opaque]] = {}  # opaque ones, each with all of its text
        self.load_paths(context, paths)

    # ------------------------------------------------------------ what is in it
    def __iter__(self) -> Iterator[str]:
        return iter(self._ops)

    def __len__(self) -> int:
        return len(self._ops)

    def __contains__(self, name: object) -> bool:
        return name in self._ops

    def __getitem__(self, name: str) -> Declaration:
        """The declaration of the op ``name``.

        Raises:
            ArgumentError: ML760, there is none.
        """
        found = self._ops.get(name)
        if found is None:
            raise self._unknown(name)
        return found

    def __repr__(self) -> str:
        return f"KernelLibrary({', '.join(self._ops)})"

    def _unknown(self, name: str) -> ArgumentError:
        import difflib

        close = difflib.get_close_matches(str(name), self._ops, 1)
        listed = ", ".join(sorted(self._ops)[:12])
        fix = "load a library that has it: Graph(..., custom_extensions=[path])"
        return ArgumentError(
            "ML760",
            f"there is no custom op {name!r}",
            why=[f"the kernel libraries of the graph have {listed or 'no ops'}"],
            fix=f"did you mean {close[0]!r}?" if close else fix,
        )

    def library_paths(self) -> list[Path]:
        """The paths that were loaded, in order."""
        return list(self._paths)

    # ------------------------------------------------------------ loading
    def add_path(self, path: Path | str) -> None:
        """Load the file, the folder or the archive at ``path``; one that is loaded already is read
        again, so that changed text counts.

        Args:
            path: A ``.c`` or ``.cu`` file, a folder of such files, or an archive that ``package``
                wrote.

        Raises:
            ArgumentError: ML763, there is no kernel library.
            ParseError: ML761, a declaration that cannot be read.
            GraphError: ML762, an op that is declared elsewhere too.
        """
        from maxlab.opset.declared import read_library, read_macros, read_types

        place = files.as_path(path)
        texts = list(_texts(place))
        # Files of a folder know the opaque types and the macros of each other.
        types = dict(self._types)
        for file, text in texts:
            declared = read_types(text, file)
            types |= {each.name: declared for each in declared}
        macros = {Path(file).name: read_macros(text, file) for file, text in texts}
        made = [d for file, text in texts for d in read_library(text, file, 1, types, macros)]
        if not made:
            raise ArgumentError(
                "ML763",
                f"{place} declares no custom op",
                fix="write // @op name(x: float32[n]) -> (y: float32[n]) above the kernel",
            )
        self._add(made, {file for file, _ in texts})
        self._types = types
        if place not in self._paths:
            self._paths.append(place)

    def load_paths(self, context: Any, custom_extensions: Iterable[Path | str]) -> None:
        """Load each of several paths.

        Args:
            context: Kept for compatibility; not looked at.
            custom_extensions: Files, folders or archives.

        Raises:
            MaxlabError: As ``add_path``.
        """
        for path in custom_extensions:
            self.add_path(path)

    def add_source(
        self, text: str, file: str = "<kernels>", first: int = 1, *, replace: bool = False
    ) -> list[Declaration]:
        """The declarations of a text, which is loaded; the ops that ``file`` had are replaced.

        Args:
            text: Declarations and bodies.
            file: What errors call the text.
            first: The number of its first line.
            replace: Whether its ops take the place of others of their names.

        Raises:
            ArgumentError: ML763, it declares nothing.
            ParseError: ML761, a declaration that cannot be read.
            GraphError: ML762, an op that is declared elsewhere too.
        """
        from maxlab.opset.declared import read_library, read_types

        made = read_library(text, file, first, self._types)
        types = read_types(text, file, first)
        if not made:
            raise ArgumentError(
                "ML763",
                "the text declares no custom op",
                fix="write // @op name(x: float32[n]) -> (y: float32[n]) above the kernel",
            )
        names = {declared.name for declared in made}
        before = self._ops
        if replace:
            self._ops = {n: d for n, d in before.items() if n not in names}
        try:
            self._add(made, {file})
        except GraphError:
            self._ops = before
            raise
        self._types = {**self._types, **{each.name: types for each in types}}
        return made

    def update(self, other: KernelLibrary) -> None:
        """Take over the ops of another library.

        Raises:
            GraphError: ML762, both declare an op, and not with one text.
        """
        self._add(list(other._ops.values()), set())
        self._types = {**other._types, **self._types}
        self._paths += [path for path in other._paths if path not in self._paths]

    def having(self, declared: Declaration) -> KernelLibrary:
        """A library with the ops of this one, and ``declared`` in the place of one of its name;
        this one where it is the same text."""
        known = self._ops.get(declared.name)
        if known is not None and known.source == declared.source:
            return self
        found = KernelLibrary()
        found._ops = {**self._ops, declared.name: declared}
        found._types, found._paths = dict(self._types), list(self._paths)
        return found

    def _add(self, made: list[Declaration], files: set[str]) -> None:
        ops = {n: d for n, d in self._ops.items() if d.file not in files}
        for declared in made:
            known = ops.get(declared.name)
            if known is not None and known.source != declared.source:
                raise GraphError(
                    "ML762",
                    f"the custom op {declared.name!r} is declared twice",
                    at=declared.location,
                    why=[f"the other declaration is at {known.file}:{known.line}"],
                    fix="give one of them another name",
                )
            ops[declared.name] = declared
        self._ops = ops
        DECLARED.update({declared.source: declared for declared in made})

    # ------------------------------------------------------------ using
    def verify_custom_op(self, custom_op: Op | IrValue | Any) -> None:
        """Raises unless the library declares the callee of ``custom_op``, with these operands,
        results and parameters.

        Args:
            custom_op: An op ``mo.custom`` or ``mo.custom.inplace``, its IR value, or the ``Value``
                that ``ops.custom`` or ``ops.inplace_custom`` gave.

        Raises:
            ArgumentTypeError: ML768, it is no custom op; ML787, ML788 or ML790, it does not say as
                the declaration what is changed in place.
            ArgumentError: ML760, another name; ML764, another number of tensors.
            DTypeError: ML765. ShapeError: ML766. DeviceError: ML769.
        """
        op = custom_op
        if not isinstance(op, Op):
            value = op._ir() if hasattr(op, "_ir") else op
            op = getattr(value, "op", None)
        if not isinstance(op, Op) or op.name not in OPS:
            raise ArgumentTypeError(
                "ML768",
                f"verify_custom_op takes a custom op, got {custom_op!r}",
                fix="pass what ops.custom made",
            )
        declared = self[op.attrs["name"]]
        operands = [v for v in op.operands if not isinstance(v.type, ChainType)]
        types = as_tensors([v.type for v in operands])
        try:
            if op.name == INPLACE:
                if not is_effect(declared):
                    require_buffers(declared, [v.type for v in operands])
            else:
                require_unchanging(declared)
            bound_of(types, op.attrs)
            if declared.source != op.attrs["source"]:
                results = [r.type for r in op.results if not isinstance(r.type, ChainType)]
                from maxlab.opset.custom_binding import bind

                values = complete(declared, dict(op.attrs["parameters"]))
                bind(declared, types, results, values, op.attrs["device"])
            require_apart(declared, operands)
        except MaxlabError as error:
            raise error.locate(op.loc) from None

    def reference(self, name: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """A decorator for the function that computes in NumPy what the op ``name`` does.

        It gets the operands as arrays and the parameters by name, and returns the result, or a
        sequence of them. ``maxlab.compare`` checks the kernel against it; nothing else calls it.

        Raises:
            ArgumentError: ML760, there is no such op.
            ArgumentTypeError: ML784, it makes or takes opaque handles.

        Example:
            >>> library = KernelLibrary()
            >>> _ = library.add_source('''
            ... // @op double(x: float32[n]) -> (y: float32[n])
            ... // @both
            ... store(y, i, 2 * load(x, i));
            ... ''')
            >>> @library.reference("double")
            ... def double(x):
            ...     return 2 * x
        """
        declared = self[name]
        if declared.has_handles:
            raise ArgumentTypeError(
                "ML784",
                f"{name} has handles, which are no arrays",
                fix="leave its reference out: checks leave the op out then, as they do any other "
                "without one",
            )
        source = declared.source

        def keep(function: Callable[..., Any]) -> Callable[..., Any]:
            REFERENCES[source] = function
            return function

        return keep

    def package(self, path: Path | str) -> Path:
        """The archive ``path``, written anew: the ops of this library in one file, which
        ``add_path`` reads.

        Args:
            path: A path that ends with ``.mxpkg``.

        Raises:
            ArgumentError: ML763, another ending, or no ops.
            FileError: ML001, ``path`` is there and is no regular file; ML003, it cannot be written.
        """
        place = files.as_path(path)
        if place.suffix != PACKAGE or not self._ops:
            raise ArgumentError(
                "ML763",
                f"{place} does not end with {PACKAGE}"
                if self._ops
                else "the library has no ops to write",
                fix=f"write library.package({place.stem + PACKAGE!r}), once there are ops in it",
            )
        import json
        import zipfile

        texts: dict[str, list[str]] = {}
        names: dict[str, str] = {}
        for declared in self._ops.values():
            file = names.get(declared.file)
            if file is None:
                stem = "".join(c if c.isalnum() else "_" for c in Path(declared.file).stem)
                file = names[declared.file] = f"{len(names)}_{stem}.c"
            texts.setdefault(file, []).append(declared.source + "\n")
        manifest = {"format": _FORMAT, "files": list(texts), "ops": list(self._ops)}
        with (
            files.replacing(place, "the archive of kernels") as out,
            zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive,
        ):
            archive.writestr(MANIFEST, json.dumps(manifest, indent=1))
            for name, parts in texts.items():
                archive.writestr(name, "\n".join(parts))
        return place


# ---------------------------------------------------------------- where texts come from
def _texts(place: Path) -> Iterator[tuple[str, str]]:
    """The files of the library at ``place``, by their absolute names."""
    # Unlike pathlib, os.path takes a name that is too long for one that is not there.
    if os.path.isdir(place):
        for path in _sources(place):
            yield str(path.resolve()), _text_of(path)
    elif place.suffix == PACKAGE and os.path.isfile(place):
        yield from _unpacked(place)
    elif os.path.isfile(place):
        yield str(place.resolve()), _text_of(place)
    else:
        raise ArgumentError(
            "ML763",
            f"there is no kernel library at {place}",
            fix="pass the path of a .c or .cu file, of a folder of them, or of an archive",
        )


def _raise(error: OSError) -> NoReturn:
    raise error


def _sources(folder: Path) -> list[Path]:
    """The files of kernels in ``folder`` and the folders in it, sorted."""
    found: list[Path] = []
    looked = 0
    try:
        for place, _, names in os.walk(folder, onerror=_raise):
            looked += 1 + len(names)
            if looked > MOST_LOOKED_AT:
                raise ArgumentError(
                    "ML763",
                    f"the kernel library {folder} has more than {MOST_LOOKED_AT:,} files and "
                    "folders in it, and not all are looked through",
                    fix="pass the folder that has the kernels",
                )
            paths = (Path(place, name) for name in names)
            found += [path for path in paths if path.suffix in SUFFIXES and path.is_file()]
        return sorted(found)
    except OSError as error:  # one that may not be read, or that went meanwhile
        raise ArgumentError(
            "ML763",
            f"the kernel library {folder} cannot be read: {error.strerror}: {error.filename}",
            fix="pass a folder that has kernels alone",
        ) from error


def _text_of(path: Path) -> str:
    try:
        return files.read_text(path, "the kernel library", _LARGEST)
    except FileError as error:
        fix = "a kernel library is text in UTF-8, of 16 MiB at most"
        raise ArgumentError("ML763", error.what, fix=fix) from error


def _unpacked(place: Path) -> list[tuple[str, str]]:
    """The texts in an archive, which are read in memory: nothing is unpacked on the disk."""
    import json

    from maxlab.zipped import Zipped

    try:
        archive = Zipped(files.read_bytes(place, "the archive of kernels", _LARGEST))
        if sum(archive.sizes.values()) > _LARGEST:
            raise ValueError("its parts are larger than any text of kernels")
        manifest = json.loads(archive.read(MANIFEST))
        if manifest["format"] != _FORMAT:
            raise ValueError(f"its format is {shown(manifest['format'])}, expected {_FORMAT}")
        names = manifest["files"]
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("its list of files is none")
        if len(set(names)) != len(names):
            raise ValueError("its list of files names one twice")
        return [(f"{place.resolve()}/{name}", archive.read(name).decode("utf-8")) for name in names]
    except (FileError, ValueError, KeyError, TypeError, RecursionError) as error:
        why = error.what if isinstance(error, FileError) else str(error) or type(error).__name__
        raise ArgumentError(
            "ML763",
            f"{place} is not an archive of kernels: {why}",
            fix="write one with library.package(path)",
        ) from error


def gathered(given: Any, at: Location | None = None) -> KernelLibrary:
    """One library of all that ``custom_extensions`` may be: a path, a text with ``@op``, a library,
    or an iterable of these.

    Raises:
        ArgumentTypeError: ML768, anything else.
        MaxlabError: As ``KernelLibrary.add_path``.
    """
    if isinstance(given, KernelLibrary):
        return given
    library = KernelLibrary()
    if given is None:
        return library
    one = isinstance(given, (str, Path)) or not isinstance(given, Iterable)
    try:
        parts = [given] if one else list(given)
    except Exception as error:
        raise ArgumentTypeError(
            "ML768",
            f"custom_extensions takes a list, and {shown(given)} cannot be read as one",
            fix="pass a list of paths, texts and kernel libraries",
        ) from error
    for part in parts:
        if isinstance(part, KernelLibrary):
            library.update(part)
        elif isinstance(part, str) and "@op" in part and "\n" in part:
            number = sum(d.file.startswith("<kernels") for d in library._ops.values())
            library.add_source(part, f"<kernels {number}>" if number else "<kernels>")
        elif isinstance(part, (str, Path)):
            library.add_path(part)
        else:
            raise ArgumentTypeError(
                "ML768",
                f"custom_extensions takes paths, texts and kernel libraries, got {shown(part)}",
                fix="pass the path of a .c or .cu file, of a folder of them, or of an archive",
            )
    return library


__all__ = ["KernelLibrary", "gathered"]
