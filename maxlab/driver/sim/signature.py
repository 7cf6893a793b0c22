"""The kernels that a CUDA text declares: names, parameters, launch bounds, shared arrays.

Input: the text. Output: `Kernel` objects with the types that arguments must have, found with
regular expressions and bracket counting; the compiler proves the text itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from maxlab.dtype import DType

_TYPES: dict[str, DType] = {
    spelling: dtype
    for dtype, spellings in {
        DType.float32: "float f32",
        DType.float64: "double f64",
        DType.float16: "__half half",
        DType.bfloat16: "__nv_bfloat16 nv_bfloat16",
        DType.float8_e4m3fn: "__nv_fp8_e4m3",
        DType.float8_e5m2: "__nv_fp8_e5m2",
        DType.bool: "bool",
        DType.int8: "char signed_char int8_t i8",
        DType.uint8: "unsigned_char uchar uint8_t u8 __nv_fp8_storage_t",
        DType.int16: "short short_int int16_t i16",
        DType.uint16: "unsigned_short unsigned_short_int ushort uint16_t u16",
        DType.int32: "int signed signed_int int32_t i32",
        DType.uint32: "unsigned unsigned_int uint uint32_t u32",
        DType.int64: "long_long long_long_int long long_int int64_t i64 ptrdiff_t",
        DType.uint64: "unsigned_long_long unsigned_long_long_int unsigned_long unsigned_long_int "
        "size_t uint64_t u64",
    }.items()
    for spelling in spellings.split()
}
_VECTOR = re.compile(r"(u?(?:char|short|int|longlong)|float|double)([1234])")
_HALF_VECTOR = {"__half2": DType.float16, "half2": DType.float16,
                "__nv_bfloat162": DType.bfloat16, "nv_bfloat162": DType.bfloat16}  # fmt: skip
_SKIPPED = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', re.DOTALL)
_GLOBAL = re.compile(r"\b__global__\b")
_BEFORE_NAME = re.compile(r"\s*(?:(?:void|static|inline|__noinline__)\b|(?=__launch_bounds__))")
_BOUNDS = re.compile(r"\s*__launch_bounds__\s*\(")
_NAME = re.compile(r"\s*([A-Za-z_]\w*)\s*\(")
_TEMPLATE = re.compile(r"\btemplate\s*<[^;{}]*>\s*(?:static\s+|inline\s+)*$")
_QUALIFIER = re.compile(r"\b(?:const|volatile|__restrict__|__restrict|__grid_constant__)\b")
_DYNAMIC = re.compile(r"\bMX_DYN_SHARED\s*\(\s*([^,]+?)\s*,\s*(\w+)\s*\)")
_EXTERN_SHARED = re.compile(
    r"\bextern\s+__shared__\s+((?:__align__\s*\([^)]*\)\s*|alignas\s*\([^)]*\)\s*)?)"
    r"([\w ]+?)\s+(\w+)\s*\[\s*\]\s*;"
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a kernel.

    Attributes:
        name: as the text has it.
        c_type: its type in C, without qualifiers, such as ``"float"`` of ``const float *x``.
        dtype: the type of its elements or of its value; None for ``void`` and for types that
            an argument cannot be made for.
        pointer: True if it takes an array.
        constant: True if the kernel only reads through it.
    """

    name: str
    c_type: str
    dtype: DType | None
    pointer: bool
    constant: bool

    def __str__(self) -> str:
        if not self.pointer:
            return f"{self.c_type} {self.name}"
        return f"{'const ' if self.constant else ''}{self.c_type} *{self.name}"


@dataclass(frozen=True, slots=True)
class Kernel:
    """A ``__global__`` function of a text.

    Attributes:
        name: what to launch it by.
        parameters: what it takes, in order.
        line: where it begins, from 1.
        max_threads: the first number of its ``__launch_bounds__``, or None.
        dynamic: the name and the type of its dynamic shared array, or None.
    """

    name: str
    parameters: tuple[Parameter, ...]
    line: int
    max_threads: int | None
    dynamic: tuple[str, str] | None

    def __str__(self) -> str:
        return f"{self.name}({', '.join(map(str, self.parameters))})"


def find_kernels(source: str) -> dict[str, Kernel]:
    """The kernels that ``source`` defines, by name; templates, which have no name to launch by,
    are left out."""
    text = without_comments(source)
    starts = list(_GLOBAL.finditer(text))
    found: dict[str, Kernel] = {}
    for index, start in enumerate(starts):
        if _TEMPLATE.search(text, 0, start.start()):
            continue
        at, bounds = start.end(), None
        while before := _BEFORE_NAME.match(text, at):
            at = before.end()
            if opening := _BOUNDS.match(text, at):
                at = _closing(text, opening.end())
                first = text[opening.end() : at - 1].split(",")[0].strip()
                bounds = int(first) if first.isdigit() else bounds
        name = _NAME.match(text, at)
        if name is None:
            continue
        end = _closing(text, name.end())
        if not text[end:].lstrip().startswith("{"):
            continue  # a declaration
        until = starts[index + 1].start() if index + 1 < len(starts) else len(text)
        dynamic = _DYNAMIC.search(text, end, until)
        found[name[1]] = Kernel(
            name[1],
            tuple(map(_parameter, _split(text[name.end() : end - 1]))),
            text.count("\n", 0, name.start(1)) + 1,
            bounds,
            (dynamic[2], dynamic[1]) if dynamic else None,
        )
    return found


def portable(source: str) -> str:
    """``source`` with CUDA's own form of dynamic shared memory in the simulator's, line by line.

    There, the array is a pointer that each block has. A declaration for the whole file is written
    into the functions behind it that use the name, at their beginning.
    """
    text = without_comments(source)
    declared = list(_EXTERN_SHARED.finditer(text))
    if not declared:
        return source
    bodies = _bodies(text)
    edits: list[tuple[int, int, str]] = []
    for found in declared:
        local = f"MX_DYN_SHARED({found[2]}, {found[3]});"
        if any(start < found.start() < end for start, end in bodies):
            edits.append((found.start(), found.end(), local))
            continue
        edits.append((found.start(), found.end(), "\n" * found[0].count("\n")))
        name = re.compile(rf"\b{re.escape(found[3])}\b")
        own = re.compile(rf"\b(?:MX_DYN_SHARED\s*\([^)]*|extern\s+__shared__[^;]*)\b{found[3]}\b")
        for start, end in bodies:
            head = text[max(map(text.rfind, ";{}", (0,) * 3, (start - 1,) * 3)) + 1 : start]
            body = text[start:end]
            if (
                start > found.end()
                and name.search(body)
                and not (name.search(head.partition("(")[2]) or own.search(body))
            ):  # a parameter or another declaration has the name there
                edits.append((start, start, f" {local}"))
    made, last = [], 0
    for start, end, instead in sorted(edits):
        made += [source[last:start], instead]
        last = end
    return "".join([*made, source[last:]])


_FUNCTION = re.compile(r"\)\s*(?:(?:const|noexcept|override)\b\s*)*$")
_SCOPE = re.compile(
    r"(?:\bextern\s*|\b(?:namespace|struct|class|union)\b[^;{}()]*)$"  # of "C" only blanks are left
)


def _bodies(text: str) -> list[tuple[int, int]]:
    """Where the bodies of functions begin, behind their brackets, and end, in ``text`` without
    comments and strings."""
    found: list[tuple[int, int]] = []
    inside: list[tuple[str, int]] = []
    last = 0  # the end of what came before
    for bracket in re.finditer(r"[{};]", text):
        at = bracket.start()
        if bracket[0] == "{":
            before = text[last:at]
            kind = "scope" if _SCOPE.search(before) else "block"
            if _FUNCTION.search(before) and all(k == "scope" for k, _ in inside):
                kind = "body"
            inside.append((kind, at + 1))
        elif bracket[0] == "}" and inside:
            kind, start = inside.pop()
            if kind == "body":
                found.append((start, at))
        last = at + 1
    return sorted(found)


def without_comments(source: str) -> str:
    """``source`` with comments and strings made blank; every character keeps its place."""
    return _SKIPPED.sub(lambda match: re.sub(r"[^\n]", " ", match[0]), source)


def shared_types(source: str, name: str) -> set[str]:
    """The element types that ``source`` declares ``__shared__`` arrays of this name with."""
    found = re.findall(
        rf"__shared__\s+(?:__align__\s*\([^)]*\)\s*|volatile\s+|alignas\s*\([^)]*\)\s*)*"
        rf"([\w ]+?)\s+(?:[^;]*[\s,])?{re.escape(name)}\s*[\[;,=]",
        without_comments(source),
    )
    return set(found)


def dtype_of(c_type: str) -> DType | None:
    """The dtype of a C type's elements: ``float`` and ``float4`` are float32."""
    joined = "_".join(c_type.split())
    if joined in _TYPES:
        return _TYPES[joined]
    if joined in _HALF_VECTOR:
        return _HALF_VECTOR[joined]
    vector = _VECTOR.fullmatch(joined)
    if vector is None:
        return None
    base = vector[1]
    if base.endswith("longlong"):
        return DType.uint64 if base.startswith("u") else DType.int64
    return _TYPES[base]


def size_of(c_type: str) -> int | None:
    """The bytes of a C type's elements, or None if it is none of those above."""
    dtype = dtype_of(c_type)
    return None if dtype is None else dtype.size_in_bytes


def _parameter(text: str) -> Parameter:
    array = text.rstrip().endswith("]")
    if array:
        text = text[: text.index("[")]
    before, star, _ = text.rpartition("*")
    pointed = before if star else text
    constant = re.search(r"\bconst\b", pointed) is not None
    words = _QUALIFIER.sub(" ", text.replace("*", " ")).split()
    name = words.pop() if len(words) > 1 else ""
    c_type = " ".join(words) + "*" * before.count("*")
    known = None if before.count("*") else dtype_of(c_type)
    if not (star or array) and (_VECTOR.fullmatch(c_type) or c_type in _HALF_VECTOR):
        known = None  # one number does not make a vector
    return Parameter(name, c_type, known, bool(star) or array, constant)


def _closing(text: str, at: int) -> int:
    """The place after the bracket that closes the one before ``at``."""
    depth = 1
    while depth and at < len(text):
        depth += {"(": 1, ")": -1}.get(text[at], 0)
        at += 1
    return at


def _split(text: str) -> list[str]:
    parts, depth, last = [], 0, 0
    for at, character in enumerate(text):
        depth += {"(": 1, "<": 1, ")": -1, ">": -1}.get(character, 0)
        if character == "," and depth == 0:
            parts.append(text[last:at])
            last = at + 1
    parts.append(text[last:])
    return [part for part in (p.strip() for p in parts) if part and part != "void"]
