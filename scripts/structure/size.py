"""How large the program is: its tokens, by folder, without what explains it.

**Python**: the tokens of the files below ``maxlab`` that were written. Comments, line ends,
indents and docstrings do not count; a docstring is every string that is a statement of its own. An
f-string is one token, whatever the version of Python. Texts of C and CUDA in ``maxlab/opset`` do
not count: those are the string literals with a ``;`` or with more than one line in them.

**TypeScript**: the tokens that the scanner of TypeScript finds in the files below
``extension/src``, without comments; a template's text between two values is one token.
"""

from __future__ import annotations

import ast
import io
import json
import shutil
import subprocess
import tokenize
from collections import Counter
from pathlib import Path

from scripts.structure.modules import source_files

LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}
FSTRING_START = getattr(tokenize, "FSTRING_START", -1)
FSTRING_END = getattr(tokenize, "FSTRING_END", -1)
KERNELS = "opset"
"""Folder of the package whose texts in C do not count."""

COUNTER = Path(__file__).with_name("size.mjs")


def python_tokens(source: str, kernels: bool = False) -> int:
    """Number of tokens of ``source``.

    Args:
        source: The text of a module.
        kernels: Whether texts of C in string literals are left out.
    """
    explained = _docstrings(ast.parse(source))
    count = depth = 0
    for token in tokenize.generate_tokens(io.StringIO(source).readline):
        if token.type == FSTRING_END:
            depth -= 1
            continue
        inside = depth > 0
        if token.type == FSTRING_START:
            depth += 1
        if inside or token.type in LAYOUT or token.start in explained:
            continue
        if kernels and token.type == tokenize.STRING and _is_c(token.string):
            continue
        count += 1
    return count


def _docstrings(tree: ast.Module) -> set[tuple[int, int]]:
    """Line and column of every string that is a statement of its own."""
    return {
        (node.lineno, node.col_offset)
        for node in ast.walk(tree)
        if isinstance(node, ast.Expr)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
    }


def _is_c(literal: str) -> bool:
    return ";" in literal or "\n" in literal


def by_folder(package: Path, extension: Path) -> dict[str, int]:
    """Tokens by folder: of the package, and of the sources of the extension.

    Args:
        package: The folder ``maxlab``.
        extension: The folder with ``node_modules`` and ``src``.

    Raises:
        RuntimeError: There is no Node.js, no TypeScript, or the counter failed.
    """
    found: Counter[str] = Counter()
    for path in source_files(package):
        parts = path.relative_to(package).parts
        folder = parts[0] if len(parts) > 1 else ""
        found[f"{package.name}/{folder}"] += python_tokens(
            path.read_text("utf-8"), folder == KERNELS
        )
    for file, count in typescript_tokens(extension).items():
        found[f"extension/src/{'/'.join(Path(file).parts[:-1][:2])}"] += count
    return dict(sorted(found.items()))


def typescript_tokens(extension: Path) -> dict[str, int]:
    """Tokens by file below ``extension/src``.

    Raises:
        RuntimeError: There is no Node.js, no TypeScript, or the counter failed.
    """
    node = shutil.which("node")
    if node is None or not (extension / "node_modules" / "typescript").is_dir():
        raise RuntimeError(
            "needs Node.js and extension/node_modules: run scripts/lab or scripts/test once"
        )
    command = [node, str(COUNTER), str(extension), str(extension / "src")]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    if run.returncode:
        raise RuntimeError(run.stderr)
    counts: dict[str, int] = json.loads(run.stdout)
    return counts


__all__ = ["by_folder", "python_tokens", "typescript_tokens"]
