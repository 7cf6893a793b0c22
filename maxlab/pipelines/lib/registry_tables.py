"""The registry and its architectures as tables: in text, and in HTML for light and dark pages."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from maxlab.markup import escape
from maxlab.tabular import aligned

if TYPE_CHECKING:
    from maxlab.pipelines.lib.architecture import SupportedArchitecture
    from maxlab.pipelines.lib.registry import PipelineRegistry

_HEAD = ("architecture", "task", "encodings", "files", "model", "examples")
_MARK = "default"


def registry_text(registry: PipelineRegistry) -> str:
    """A row for each architecture, under a line with their number."""
    rows = [_row(one) for _, one in sorted(registry.architectures.items())]
    return "\n".join([repr(registry), *(aligned([_HEAD, *rows]) if rows else [])])


def registry_page(registry: PipelineRegistry) -> str:
    """The same as a table of HTML."""
    rows = [_row(one) for _, one in sorted(registry.architectures.items())]
    if not rows:
        return _table(repr(registry), (), [("register() adds an architecture",)])
    return _table(repr(registry), _HEAD, rows)


def architecture_text(architecture: SupportedArchitecture) -> str:
    """A line for each field."""
    lines = aligned(_fields(architecture))
    return "\n".join([f"SupportedArchitecture {architecture.name}", *lines])


def architecture_page(architecture: SupportedArchitecture) -> str:
    """The same as a table of HTML."""
    return _table(f"SupportedArchitecture {architecture.name}", (), _fields(architecture))


def _row(architecture: SupportedArchitecture) -> tuple[str, ...]:
    return (
        architecture.name,
        architecture.task.value,
        _encodings(architecture),
        _formats(architecture),
        architecture.pipeline_model.__name__,
        ", ".join(architecture.example_repo_ids),
    )


def _encodings(architecture: SupportedArchitecture) -> str:
    """The encodings, the default one first and marked where there are several."""
    default = architecture.default_encoding
    others = [one.value for one in architecture.supported_encodings if one is not default]
    return ", ".join([f"{default.value} ({_MARK})", *others]) if others else default.value


def _formats(architecture: SupportedArchitecture) -> str:
    """The formats of files, the one that the model reads first."""
    default = architecture.default_weights_format
    others = [one.value for one in architecture.weight_adapters if one is not default]
    return ", ".join([default.value, *others])


def _fields(architecture: SupportedArchitecture) -> list[tuple[str, str]]:
    """The name and the value of each field, as words."""
    one = architecture
    model, tokenizer = one.pipeline_model, one.tokenizer
    caches = {
        encoding.value: ", ".join(strategies) or "no cache"
        for encoding, strategies in one.supported_encodings.items()
    }
    return [
        ("task", one.task.value),
        ("examples", ", ".join(one.example_repo_ids) or "none"),
        ("encodings", _encodings(one)),
        ("caches", "; ".join(f"{name}: {caches[name]}" for name in caches)),
        ("model", f"{model.__module__}.{model.__qualname__}"),
        ("tokenizer", getattr(tokenizer, "__qualname__", type(tokenizer).__qualname__)),
        ("files", _formats(one)),
        ("rotary embeddings", one.rope_type.value),
        ("several GPUs", "yes" if one.multi_gpu_supported else "no"),
        ("empty batches", "yes" if one.supports_empty_batches else "no"),
        (
            "required arguments",
            ", ".join(f"{name}={value!r}" for name, value in one.required_arguments.items())
            or "none",
        ),
        (
            "context validators",
            ", ".join(getattr(f, "__name__", repr(f)) for f in one.context_validators) or "none",
        ),
    ]


# Colours come from the page, so that it is read on a light one and on a dark one.
_STYLE = (
    ".maxlab-registry{border-collapse:collapse;font-size:.9em;max-width:100%}"
    ".maxlab-registry caption{text-align:left;font-weight:bold;padding:4px 0}"
    ".maxlab-registry th,.maxlab-registry td{text-align:left;vertical-align:top;"
    "padding:2px 12px 2px 0;border-bottom:1px solid rgba(128,128,128,.35);color:inherit;"
    "background:transparent;overflow-wrap:anywhere}"
)


def _table(title: str, head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column names its rows."""
    heads = "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head)
    lines = "".join(
        f'<tr><th scope="row">{escape(row[0])}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in row[1:])
        + "</tr>"
        for row in rows
    )
    return (
        f'<style>{_STYLE}</style><table class="maxlab-registry"><caption>{escape(title)}</caption>'
        + (f"<thead><tr>{heads}</tr></thead>" if head else "")
        + f"<tbody>{lines}</tbody></table>"
    )


__all__ = ["architecture_page", "architecture_text", "registry_page", "registry_text"]
