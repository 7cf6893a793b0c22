"""``maxlab.open``: what there is in a file, whatever it is called."""

from __future__ import annotations

from pathlib import Path

from maxlab import files
from maxlab.analysis.runs import SavedRun, load_run
from maxlab.graph import Graph
from maxlab.habits import fitting
from maxlab.opset.custom import trust

_ZIPPED = b"PK"


@fitting("ML975", "maxlab.open('name.mlgraph')")
def open_file(path: Path | str, *, trusted: bool = False) -> Graph | SavedRun:
    """The graph in the file at ``path``, or the saved run: what is in the file decides.

    A graph is in a document, ``.mlgraph``, with its layout, comments and drafts in
    ``graph.document``; or in MLIR's generic form. A document of no bytes is an empty graph, called
    as its file. Opening runs nothing of the file. Custom kernels that a graph has are seen, edited
    and saved, and are compiled only if ``trusted``, when this user saved the file or trusted it in
    JupyterLab and no byte of it changed since, or when a kernel library of this process declares
    the same text.

    Args:
        path: The file.
        trusted: Whether the custom kernels of a graph may be compiled and run: the file is trusted
            as a program of its author is. It is not remembered: it holds for this process.

    Raises:
        FileError: ML001, it is no regular file; ML002, it cannot be read.
        ParseError: ML350, it is text without a graph; ML864, a document that is damaged; ML865, a
            newer maxlab wrote it; ML866, it is too large.
        GraphError: ML301, an op that is not known; ML356 to ML358, ops that do not fit together.
        DocumentError: ML840 to ML843, it is no saved run, or a damaged one.

    Example:
        >>> import tempfile
        >>> import maxlab
        >>> row = maxlab.TensorType(maxlab.float32, ["n"])
        >>> graph = maxlab.Graph("double", lambda x: x * 2, [row])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     graph.save(f"{folder}/double.mlgraph")
        ...     maxlab.open(f"{folder}/double.mlgraph")
        Graph('double', 1 input, 1 op)
    """
    with files.open_regular(path) as file:
        begins = file.read(len(_ZIPPED))
    if begins == _ZIPPED:
        return load_run(path)
    graph = Graph(path=files.as_path(path))
    if trusted:
        trust(graph.function)
    return graph


__all__ = ["open_file"]
