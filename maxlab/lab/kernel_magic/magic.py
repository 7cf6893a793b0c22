"""The cell magic ``%%kernel``: custom ops declared in a notebook, under a name of the notebook."""

from __future__ import annotations

from collections.abc import Callable, MutableMapping
from typing import Any

from maxlab.errors import MaxlabError, NotebookError
from maxlab.graph import KernelLibrary
from maxlab.lab.maxprof.magic import tell_shortly

USAGE = """\
%%kernel [NAME]

Declares the custom ops in the cell: C and CUDA below comments such as

    // @op double(x: float32[n]) -> (y: float32[n])
    // @both
    store(y, i, 2 * load(x, i));

and puts them into the kernel library NAME (kernels, when it is left out), a variable that is made
when there is none. Pass it to graphs: Graph(..., custom_extensions=kernels). An op of a name that
the library has is replaced, so the cell can be run again; graphs keep the kernels that they were
built with. docs/how-to/write-a-kernel.md describes the language.
"""
DEFAULT = "kernels"


def define_cell(
    line: str, cell: str, namespace: MutableMapping[str, Any], file: str = "<cell>"
) -> KernelLibrary:
    """The kernel library that ``line`` names, with the ops of ``cell`` in it.

    Args:
        line: What stands behind ``%%kernel``.
        cell: The text below it, from line 2 of ``file`` on.
        namespace: The variables of the notebook; the library becomes one of them.
        file: What errors call the cell.

    Raises:
        NotebookError: ML820, ``line`` is no name; ML821, the variable is something else.
        ParseError: ML761, a declaration that cannot be read.
        ArgumentError: ML763, the cell declares nothing.
        GraphError: ML762, the cell declares an op twice.

    Example:
        >>> variables = {}
        >>> text = "// @op zero(x: float32[n]) -> (y: float32[n])\\n// @both\\nstore(y, i, 0);"
        >>> define_cell("", text, variables)
        KernelLibrary(zero)
        >>> variables["kernels"]
        KernelLibrary(zero)
    """
    name = line.strip() or DEFAULT
    if not name.isidentifier():
        raise NotebookError(
            "ML820",
            f"%%kernel takes the name of a variable, got {name!r}",
            fix="write %%kernel, or %%kernel my_kernels",
        )
    library = namespace.get(name)
    if library is None:
        library = KernelLibrary()
    if not isinstance(library, KernelLibrary):
        raise NotebookError(
            "ML821",
            f"%%kernel {name}: the variable {name!r} is no kernel library, but {library!r:.80}",
            fix="choose another name",
        )
    library.add_source(cell, file, 2, replace=True)
    namespace[name] = library
    return library


def register(shell: Any) -> None:
    """Add ``%%kernel`` to an IPython shell; ``%load_ext maxlab`` calls it."""
    shell.register_magic_function(_magic_of(shell), "cell", "kernel")


def _magic_of(shell: Any) -> Callable[[str, str], Any]:
    def kernel(line: str, cell: str) -> Any:
        __tracebackhide__ = True
        try:
            return define_cell(line, cell, shell.user_ns, f"In[{shell.execution_count}]")
        except MaxlabError as error:  # the frames are maxlab's own
            tell_shortly(error)
            raise

    kernel.__doc__ = USAGE
    # The cell is C: IPython is not to put values in the place of {names}.
    kernel._ipython_magic_no_var_expand = True  # type: ignore[attr-defined]
    return kernel
