"""The draft model of a pipeline: which one it is, and how it is loaded."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from maxlab.errors import InputError
from maxlab.interfaces import PipelineTask
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.lib.config_resolving import architecture_of
from maxlab.pipelines.lib.interfaces import PipelineModel
from maxlab.pipelines.lib.model_loading import loaded_model

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import MAXModelConfig, PipelineConfig


def loaded_draft(config: PipelineConfig) -> PipelineModel[Any]:
    """The draft model of a configuration, which returns the logits of last tokens.

    Args:
        config: The configuration of the pipeline, resolved.

    Raises:
        InputError: ML868, the configuration names no draft model; ML172, its architecture is not
            registered; ML174, that is one of another task (each a ValueError).
        WeightError: The files of weights cannot be read, or do not fit the model.
    """
    draft = config.draft_model_config
    if draft is None:
        raise InputError(
            "ML868",
            "speculative decoding needs a draft model, and the configuration names none",
            fix="give draft_model_path, or use TextGenerationPipeline",
        )
    architecture: Any = architecture_of(draft)
    if architecture is None:
        names = draft.huggingface_config.architectures or []
        raise InputError(
            "ML172",
            f"the draft model {draft.model_path} names the architecture "
            f"{', '.join(names) or 'none'}, which is not registered",
            fix="register it, or name the module that has it in custom_architectures",
        )
    if architecture.task is not PipelineTask.TEXT_GENERATION:
        raise InputError(
            "ML174",
            f"a draft model for {PipelineTask.TEXT_GENERATION.value} expected ≠ "
            f"{architecture.name} for {architecture.task.value} given",
            fix="name a small model of the family of the model",
        )
    model: type[PipelineModel[Any]] = architecture.pipeline_model
    return loaded_model(
        _own_config(config, draft, model),
        model,
        architecture.weight_adapters,
        ReturnLogits.LAST_TOKEN,
    )


def _own_config(
    config: PipelineConfig, draft: MAXModelConfig, model: type[PipelineModel[Any]]
) -> PipelineConfig:
    """``config`` as the draft model reads it: its own model, no adapters, and no longer texts than
    it was trained for."""
    own = copy.copy(config)
    vars(own).update(
        _origins=dict(config._origins),
        _model_config=draft,
        _draft_model_config=None,
        _lora_config=None,
        max_length=None,
    )
    most = model.calculate_max_seq_len(own, draft.huggingface_config)
    vars(own)["max_length"] = most if config.max_length is None else min(most, config.max_length)
    return own


__all__ = ["loaded_draft"]
