"""Kernel libraries: their language, files, folders and archives."""

from __future__ import annotations

import zipfile
from pathlib import Path

import numpy as np
import pytest

from maxlab import engine
from maxlab.dtype import DType
from maxlab.errors import ArgumentError, ArgumentTypeError, GraphError, ParseError
from maxlab.graph import DeviceRef, Graph, KernelLibrary, TensorType, ops
from maxlab.opset.declared import read_library

CPU = DeviceRef.CPU()
VECTOR = TensorType(DType.float32, ["n"])
ONE = "// @op one(x: float32[n]) -> (y: float32[n])\n// @both\nstore(y, i, load(x, i) + 1);\n"
TWO = ONE.replace("one", "two").replace("+ 1", "+ 2")


def computed(graph: Graph) -> list[float]:
    (y,) = engine.InferenceSession().load(graph)(np.zeros(1, np.float32))
    return [float(v) for v in y.to_numpy()]


def calling(name: str, *extensions: object) -> Graph:
    with Graph("g", input_types=[VECTOR], custom_extensions=list(extensions)) as graph:
        graph.output(*ops.custom(name, CPU, [graph.inputs[0]], [VECTOR]))
    return graph


def test_files_folders_and_texts(tmp_path: Path) -> None:
    folder = tmp_path / "kernels"
    (folder / "deep").mkdir(parents=True)
    (folder / "one.c").write_text("// Adds.\n" + ONE)
    (folder / "deep" / "two.cu").write_text(TWO)
    (folder / "helper.c").write_text("int unrelated;\n")
    library = KernelLibrary(None, [folder])
    assert list(library) == ["two", "one"]
    assert library.library_paths() == [folder]
    assert library["one"].line == 2
    for given in (folder, str(folder), library, [library], [folder / "one.c"], ONE, [TWO, ONE]):
        graph = Graph("g", input_types=[VECTOR], custom_extensions=given)
        with graph:
            graph.output(*ops.custom("one", CPU, [graph.inputs[0]], [VECTOR]))
        assert computed(graph) == [1]
    assert graph.kernel_libraries_paths == []
    assert calling("two", folder).kernel_libraries_paths == [folder]


def test_a_path_is_read_again(tmp_path: Path) -> None:
    path = tmp_path / "k.c"
    path.write_text(ONE + TWO)
    library = KernelLibrary(None, [path])
    path.write_text(ONE.replace("+ 1", "+ 3"))
    library.add_path(path)
    assert list(library) == ["one"]
    assert library.library_paths() == [path]
    assert computed(calling("one", library)) == [3]


def test_an_archive(tmp_path: Path) -> None:
    library = KernelLibrary()
    library.add_source(ONE, "my kernels/a.c")
    library.add_source(TWO, "b.c")
    path = library.package(tmp_path / "all.mxpkg")
    assert computed(calling("two", path)) == [2]
    with pytest.raises(ArgumentError, match="does not end") as caught:
        library.package(tmp_path / "all.zip")
    assert caught.value.code == "ML763"
    with pytest.raises(ArgumentError, match="no ops to write"):
        KernelLibrary().package(tmp_path / "none.mxpkg")
    broken = tmp_path / "broken.mxpkg"
    broken.write_bytes(b"PK nothing")
    with pytest.raises(ArgumentError, match="no archive|not an archive"):
        KernelLibrary(None, [broken])
    with zipfile.ZipFile(broken, "w") as archive:
        archive.writestr("manifest.json", '{"format": 9, "files": []}')
    with pytest.raises(ArgumentError, match="format"):
        KernelLibrary(None, [broken])


def test_wrong_libraries(tmp_path: Path) -> None:
    with pytest.raises(ArgumentError, match="there is no kernel library"):
        KernelLibrary(None, [tmp_path / "nothing"])
    with pytest.raises(ArgumentError, match="declares no custom op"):
        KernelLibrary(None, [tmp_path])
    binary = tmp_path / "k.c"
    binary.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ArgumentError, match="cannot be read"):
        KernelLibrary(None, [binary])
    library = KernelLibrary()
    with pytest.raises(ArgumentError, match="declares no custom op"):
        library.add_source("int x;")
    library.add_source(ONE, "a")
    with pytest.raises(GraphError) as caught:
        library.add_source(ONE.replace("+ 1", "+ 9"), "b")
    assert caught.value.code == "ML762"
    library.add_source(ONE, "b")  # the same text is the same op
    library.add_source(ONE.replace("+ 1", "+ 9"), "b")  # and this one replaces that
    for wrong in (3, [3]):
        with pytest.raises(ArgumentTypeError) as refused:
            Graph("g", custom_extensions=wrong)
        assert refused.value.code == "ML768"


def test_a_folder_of_everything_is_not_looked_through(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("maxlab.graph.kernel_library.MOST_LOOKED_AT", 5)
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "k.c").write_text(ONE)
    assert len(KernelLibrary(None, [tmp_path])) == 1
    for number in range(5):
        (tmp_path / f"{number}.txt").touch()
    with pytest.raises(ArgumentError, match="more than 5 files") as caught:
        KernelLibrary(None, [tmp_path])
    assert caught.value.code == "ML763"


def test_verify_custom_op() -> None:
    library = KernelLibrary()
    library.add_source(ONE)
    graph = calling("one", library)
    op = graph.function.ops[0]
    library.verify_custom_op(op)
    library.verify_custom_op(op.result)
    other = KernelLibrary()
    with pytest.raises(ArgumentError) as unknown:
        other.verify_custom_op(op)
    assert unknown.value.code == "ML760"
    other.add_source(ONE.replace("y: float32", "y: float64"))
    with pytest.raises(ValueError, match="must be float64, got float32"):
        other.verify_custom_op(op)
    with pytest.raises(ArgumentTypeError):
        library.verify_custom_op(graph.function.ops[-1])


HEAD = "// @op one(x: float32[n]) -> (y: float32[n])\n"
BODY = "// @both\ny[i] = 0;\n"
MALFORMED = [
    ("// @both\n" + ONE, 1, "before any @op"),
    ("// @op one x\n" + BODY, 1, "declared as"),
    ("// @op one(x: float32) -> (y: float32[n])\n" + BODY, 1, "is not an argument"),
    ("// @op one(x: float32[n]) -> ()\n" + BODY, 1, "has no result"),
    ("// @op one(x: T[n]) -> (y: T[n])\n" + BODY, 1, "element type 'T'"),
    ("// @op one(x: float32[n]) -> (x: float32[n])\n" + BODY, 1, "two things"),
    ("// @op one(x: float32[x]) -> (y: float32[x])\n" + BODY, 1, "dim and something else"),
    ("// @op one(i: float32[n]) -> (y: float32[n])\n" + BODY, 1, "in a body"),
    ("// @op one(x: float32[n + 1]) -> (y: float32[n])\n" + BODY, 1, "name or number"),
    ("// @op one(x: float32[*a, *b]) -> (y: float32[n])\n" + BODY, 1, "two dims with a star"),
    ("// @op one(x: float32[*a], z: float32[a]) -> (y: float32[2])\n" + BODY, 1, "any number"),
    (HEAD + "// @types T float32\n" + BODY, 2, "not a type variable"),
    (HEAD + "// @types T: real\n" + BODY, 2, "'real' is not a dtype"),
    (HEAD + "// @types T: float8_e5m2\n" + BODY, 2, "is not a dtype that kernels read"),
    (HEAD + "// @params N\n" + BODY, 2, "not a parameter"),
    (HEAD + "// @params N: int = one\n" + BODY, 2, "not a value of the type int"),
    (HEAD + '// @params N: str = "a" in "b", "c"\n' + BODY, 2, "none of its choices"),
    (HEAD + "// @items m\n" + BODY, 2, "names 'm'"),
    (HEAD + "// @items n +\n" + BODY, 2, "not a dim"),
    (HEAD + "// @items n\n// @items n\n" + BODY, 3, "twice"),
    (HEAD + "// @item n\n" + BODY, 2, "no directive @item"),
    (HEAD + "int x;\n" + BODY, 2, "outside of any body"),
    (HEAD + "// @both blocks\ny[i] = 0;\n", 2, "does not know 'blocks'"),
    (HEAD + "// @cuda threads=2000\ny[i] = 0;\n", 2, "from 1 to 1024"),
    (HEAD + BODY + "// @c\ny[i] = 1;\n", 4, "two bodies for c"),
    (HEAD + "// @both\n\n", 2, "is empty"),
    (HEAD, 1, "has no body"),
]


@pytest.mark.parametrize(("text", "line", "what"), MALFORMED)
def test_malformed_texts_name_the_line(text: str, line: int, what: str) -> None:
    with pytest.raises(ParseError, match=what) as caught:
        read_library("\n\n" + text if "before" not in what else text, "k.c", 11)
    error = caught.value
    assert error.code == "ML761"
    assert error.at is not None
    shift = 10 if "before" in what else 12
    assert (error.at.file, error.at.line) == ("k.c", line + shift)


def test_a_head_of_several_lines() -> None:
    (op,) = read_library(
        "// @op long(x: float32[n, m],\n//         z: float32[m]) -> (\n//   y: float32[n])\n"
        "// A note.\n// @work m\n// @both serial work=n*m\ny[i] = 0;\n// @end\n// Behind it.\n",
        "k.c",
    )
    assert str(op) == "long(x: float32[n, m], z: float32[m]) -> (y: float32[n])"
    ((_, body),) = op.bodies("c")
    assert body.flags == {"serial"}
    assert body.text == "y[i] = 0;"
