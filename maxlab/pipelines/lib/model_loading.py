"""Models of pipelines with their weights, on the devices of a configuration."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from maxlab.driver import load_devices
from maxlab.engine import InferenceSession
from maxlab.errors import InputError
from maxlab.graph.weights import WeightsFormat, load_weights, weights_format
from maxlab.nn.transformer import ReturnLogits
from maxlab.pipelines.lib.config_enums import RepoType
from maxlab.pipelines.lib.hf_utils import download_weight_files
from maxlab.pipelines.lib.interfaces import PipelineModel
from maxlab.pipelines.lib.weights_adapter import WeightsAdapter

if TYPE_CHECKING:
    from maxlab.pipelines.lib.config import MAXModelConfig, PipelineConfig


def loaded_model(
    pipeline_config: PipelineConfig,
    pipeline_model: type[PipelineModel[Any]],
    weight_adapters: Mapping[WeightsFormat, WeightsAdapter],
    return_logits: ReturnLogits,
) -> PipelineModel[Any]:
    """A model on the devices of the configuration, with the weights of its checkpoint.

    Args:
        pipeline_config: The configuration, resolved.
        pipeline_model: The class of the model.
        weight_adapters: Functions that convert the weights of a format of files.
        return_logits: Which logits the model returns.

    Raises:
        InputError: ML182 (a ValueError), the configuration names no encoding.
        WeightError: The files of weights cannot be read, or do not fit the model.
    """
    config = pipeline_config.model_config
    encoding = config.quantization_encoding
    if encoding is None:
        raise InputError(
            "ML182",
            "the configuration of the pipeline names no encoding of weights",
            fix="call resolve() of the configuration, or pass quantization_encoding",
        )
    devices = load_devices(config.device_specs)
    session = InferenceSession(devices=devices)
    pipeline_config.configure_session(session)
    paths = weight_paths(config)
    return pipeline_model(
        pipeline_config=pipeline_config,
        session=session,
        huggingface_config=config.huggingface_config,
        encoding=encoding,
        devices=devices,
        kv_cache_config=config.kv_cache_config,
        weights=load_weights(paths),
        adapter=weight_adapters.get(weights_format(paths)),
        return_logits=return_logits,
    )


def weight_paths(config: MAXModelConfig) -> list[Path]:
    """The files of a model's weights on this machine, downloaded where they are not here yet.

    Relative paths lie in the folder or the repository of the weights, whatever the working
    directory is.

    Args:
        config: The configuration of the model, resolved.

    Raises:
        RepositoryError: A file is not there, or cannot be downloaded (a ValueError).
    """
    repo = config.huggingface_weight_repo
    inside = [path for path in config.weight_path if not path.is_absolute()]
    is_online = repo.repo_type is RepoType.online
    found = iter(
        download_weight_files(
            repo.repo_id,
            [path.as_posix() for path in inside],
            revision=repo.revision if is_online else None,
            force_download=config.force_download and is_online,
        )
        if inside
        else []
    )
    return [path if path.is_absolute() else next(found) for path in config.weight_path]


__all__ = ["loaded_model", "weight_paths"]
