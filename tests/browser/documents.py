"""A graph document that needs no maxlab to make: an encoder of identical layers, with a profile."""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import Any

GRAPH_MIME = "application/vnd.maxlab.graph+json"
WIDGET_MIME = "application/vnd.jupyter.widget-view+json"

_OPS = ("layer_norm", "matmul", "gelu", "matmul", "add")


def encoder(layers: int = 6, name: str = "encoder") -> dict[str, Any]:
    """The document of ``layers`` equal layers of five operations in a row."""
    nodes: list[dict[str, Any]] = []
    values: list[dict[str, Any]] = [_value("v0", "input")]
    scopes = [_scope("encoder", "Encoder", "e")]
    kernels: list[dict[str, Any]] = []
    times: list[dict[str, Any]] = []
    for layer in range(layers):
        path = f"encoder.layers.{layer}"
        scopes.append(_scope(path, "Layer", "same"))
        first = f"v{len(values) - 1}"
        for op in _OPS:
            node, result = f"n{len(nodes) + 1}", f"v{len(values)}"
            operands = [f"v{len(values) - 1}"] + ([first] if op == "add" else [])
            nodes.append(
                {
                    "id": node,
                    "op": op,
                    "name": op,
                    "scope": path,
                    "operands": operands,
                    "results": [result],
                    "attrs": {},
                    "source": {
                        "file": "cell [3]",
                        "line": 4,
                        "col": 4,
                        "text": f"x = ops.{op}(x)",
                        "function": "layer",
                    },
                    "error": None,
                }
            )
            values.append(_value(result, "tensor"))
            kernel = f"k{len(kernels) + 1}"
            ns = (900_000 if op == "matmul" else 40_000) + 1_000 * layer
            kernels.append(
                {
                    "id": kernel,
                    "name": op,
                    "kind": "contract" if op == "matmul" else "map",
                    "nodes": [node],
                    "symbol": f"k_{kernel}",
                    "source": f"int k_{kernel}(void *const *b) {{\n  /* {op} */\n}}\n",
                    "lines": [[1, 3, node]],
                    "flops": 2.0e9 if op == "matmul" else 1.0e6,
                    "bytes": 3.0e6,
                    "parallel": "batch",
                }
            )
            times.append(
                {
                    "id": kernel,
                    "ns": ns,
                    "ns_min": ns,
                    "count": 1,
                    "flops": 2.0e9 if op == "matmul" else 1.0e6,
                    "bytes": 3.0e6,
                    "nodes": [node],
                }
            )
    return {
        "format": "maxlab.graph",
        "version": 1,
        "name": name,
        "revision": 1,
        "nodes": nodes,
        "values": values,
        "inputs": ["v0"],
        "outputs": [values[-1]["id"]],
        "scopes": scopes,
        "kernels": kernels,
        "passes": [],
        "profile": {
            "device": "cpu",
            "runs": 20,
            "threads": 2,
            "dims": {"batch": 8},
            "wall_ns": sum(item["ns"] for item in times),
            "kernels": times,
        },
        "error": None,
    }


def packed(document: dict[str, Any]) -> dict[str, str]:
    """``document`` as it is saved in an output."""
    data = zlib.compress(json.dumps(document).encode())
    return {"encoding": "deflate+base64", "data": base64.b64encode(data).decode()}


def write_notebook(folder: Path, name: str, outputs: list[dict[str, Any]]) -> str:
    """The name of a new notebook with one cell that has these MIME bundles as outputs."""
    kind = {"output_type": "execute_result", "execution_count": 1, "metadata": {}}
    cell = {
        "cell_type": "code",
        "id": "graph",
        "source": "graph",
        "execution_count": 1,
        "metadata": {},
        "outputs": [{**kind, "data": data} for data in outputs],
    }
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    book = {"nbformat": 4, "nbformat_minor": 5, "metadata": {"kernelspec": kernel}, "cells": [cell]}
    (folder / name).write_text(json.dumps(book))
    return name


def _value(name: str, kind: str) -> dict[str, Any]:
    return {
        "id": name,
        "type": "f32[batch, 384]",
        "dtype": "float32",
        "shape": ["batch", 384],
        "kind": kind,
        "nbytes": None,
    }


def _scope(path: str, kind: str, fingerprint: str) -> dict[str, str]:
    label = path.removeprefix("encoder.")
    return {"path": path, "label": label, "type": kind, "fingerprint": fingerprint}
