"""Architectures: which model runs a checkpoint, and how its files, texts and cache are read."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from maxlab.errors import InputError
from maxlab.graph.weights import WeightData, WeightsFormat
from maxlab.interfaces import PipelineTask, PipelineTokenizer, fields
from maxlab.nn.kv_cache import KVCacheStrategy
from maxlab.pipelines.core import TextAndVisionContext, TextContext
from maxlab.pipelines.lib.config_enums import RopeType, SupportedEncoding
from maxlab.pipelines.lib.interfaces import PipelineModel
from maxlab.pipelines.lib.registry_tables import html_table, text_table

ContextValidator = Callable[[TextContext | TextAndVisionContext], None]
"""A function that raises an InputError for a context which a model cannot run."""


def _function(name: str, value: Any) -> None:
    if not callable(value):
        raise fields.wrong_type(name, value, "a function")


def _model(name: str, value: Any) -> None:
    if not (isinstance(value, type) and issubclass(value, PipelineModel)):
        raise fields.wrong_type(name, value, "a class that extends PipelineModel")


_RULES: fields.Rules = {
    "name": fields.word,
    "example_repo_ids": fields.listed(fields.word),
    "default_encoding": fields.instance(SupportedEncoding),
    "supported_encodings": fields.mapped(
        fields.instance(SupportedEncoding), fields.listed(fields.instance(KVCacheStrategy))
    ),
    "pipeline_model": _model,
    "task": fields.instance(PipelineTask),
    "tokenizer": _function,
    "default_weights_format": fields.instance(WeightsFormat),
    "rope_type": fields.instance(RopeType),
    "weight_adapters": fields.mapped(fields.instance(WeightsFormat), _function),
    "multi_gpu_supported": fields.flag,
    "required_arguments": fields.mapped(fields.word, fields.instance(bool, int, float)),
    "context_validators": fields.listed(_function),
    "supports_empty_batches": fields.flag,
}


@dataclass
class SupportedArchitecture:
    """An architecture that pipelines can run: its model, tokenizer, encodings and files.

    `PipelineRegistry.register` makes it known. A checkpoint names its architecture in
    ``config.json``, under ``architectures``.

    Args:
        name: The name of the class in transformers, as checkpoints have it.
        example_repo_ids: Repositories with such checkpoints.
        default_encoding: The encoding where the configuration names none.
        supported_encodings: The encodings that the model runs, each with the strategies of the
            cache; [] for a model without a cache.
        pipeline_model: The model.
        task: What the model is for.
        tokenizer: Makes the tokenizer; it is called with the path of the checkpoint and with
            keywords, see `PipelineRegistry.retrieve_tokenizer`.
        default_weights_format: The format of files that the model reads.
        rope_type: The rotary embeddings of the model.
        weight_adapters: Functions that convert the weights of other formats, by format.
        multi_gpu_supported: Whether the model runs on several GPUs.
        required_arguments: Settings that the configuration must have, by name; another value is
            overridden with a warning.
        context_validators: Functions that see each new context and raise an InputError for one
            that the model cannot run.
        supports_empty_batches: Whether the model runs batches without requests.

    Raises:
        InputTypeError: ML980, a field of another type.
        InputError: ML981, an empty name; ML170, ``default_encoding`` is not supported, or
            ``pipeline_model`` lacks methods (each a ValueError).
    """

    name: str
    example_repo_ids: list[str]
    default_encoding: SupportedEncoding
    supported_encodings: dict[SupportedEncoding, list[KVCacheStrategy]]
    pipeline_model: type[PipelineModel[Any]]
    task: PipelineTask
    tokenizer: Callable[..., PipelineTokenizer[Any, Any, Any]]
    default_weights_format: WeightsFormat
    rope_type: RopeType = RopeType.none
    weight_adapters: dict[WeightsFormat, Callable[..., dict[str, WeightData]]] = field(
        default_factory=dict
    )
    multi_gpu_supported: bool = False
    required_arguments: dict[str, bool | int | float] = field(default_factory=dict)
    context_validators: list[ContextValidator] = field(default_factory=list)
    supports_empty_batches: bool = False

    def __post_init__(self) -> None:
        fields.check(self, _RULES)
        if self.default_encoding not in self.supported_encodings:
            known = ", ".join(self.supported_encodings) or "none"
            raise InputError(
                "ML170",
                f"{self.name}: the default encoding {self.default_encoding} is not among the "
                f"supported ones: {known}",
                fix="add it to supported_encodings, with the strategies of its cache or []",
            )
        if inspect.isabstract(self.pipeline_model):
            lacking = ", ".join(sorted(self.pipeline_model.__abstractmethods__))
            raise InputError(
                "ML170",
                f"{self.name}: its model {self.pipeline_model.__name__} does not have {lacking}",
                fix="define them in the model",
            )
        if self.context_validators and not takes(self.tokenizer, "context_validators"):
            raise InputError(
                "ML170",
                f"{self.name}: its tokenizer does not take context_validators, so they would never "
                "run",
                fix="let the tokenizer take context_validators, and call each in new_context",
            )

    @property
    def tokenizer_cls(self) -> type[PipelineTokenizer[Any, Any, Any]]:
        """The class of the tokenizer; the protocol itself where a function makes it."""
        made_by = self.tokenizer
        while isinstance(made_by, functools.partial):
            made_by = made_by.func
        return made_by if isinstance(made_by, type) else PipelineTokenizer

    def _repr_html_(self) -> str:
        return html_table(f"SupportedArchitecture {self.name}", (), _facts(self))

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        printer.text(text_table(f"SupportedArchitecture {self.name}", (), _facts(self)))


def encodings_of(architecture: SupportedArchitecture) -> str:
    """The encodings, the default one first and marked where there are several."""
    default = architecture.default_encoding
    others = [one.value for one in architecture.supported_encodings if one is not default]
    return ", ".join([f"{default.value} (default)", *others]) if others else default.value


def formats_of(architecture: SupportedArchitecture) -> str:
    """The formats of files, the one that the model reads first."""
    default = architecture.default_weights_format
    others = [one.value for one in architecture.weight_adapters if one is not default]
    return ", ".join([default.value, *others])


def _facts(architecture: SupportedArchitecture) -> list[tuple[str, str]]:
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
        ("encodings", encodings_of(one)),
        ("caches", "; ".join(f"{name}: {caches[name]}" for name in caches)),
        ("model", f"{model.__module__}.{model.__qualname__}"),
        ("tokenizer", getattr(tokenizer, "__qualname__", type(tokenizer).__qualname__)),
        ("files", formats_of(one)),
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


def takes(function: Callable[..., Any], keyword: str) -> bool:
    """True if ``function`` can be called with ``keyword``, by name or among others.

    Example:
        >>> takes(lambda path, *, revision=None: path, "revision")
        True
        >>> takes(lambda path: path, "revision")
        False
    """
    try:
        parameters = inspect.signature(function).parameters
    except ValueError:  # of a function of another language, which tells nothing
        return True
    named = parameters.get(keyword)
    if named is not None and named.kind is not named.POSITIONAL_ONLY:
        return True
    return any(one.kind is one.VAR_KEYWORD for one in parameters.values())


__all__ = ["ContextValidator", "SupportedArchitecture", "encodings_of", "formats_of", "takes"]
