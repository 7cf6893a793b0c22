"""The command ``serve``."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

TOKEN_VARIABLE = "MAXLAB_SERVE_TOKEN"
FEATURES = (
    "enable_structured_output",
    "do_penalties",
    "enable_min_tokens",
    "enable_in_flight_batching",
)
"""The features that a server has unless a flag says no: those of the sampler that are in the API,
and answers that do not pause while the prompts of others are read."""
AUDIO_FLAG = "--audio-decoder"
"""The flag that says that a model is one of audio."""
KEPT_EVENTS = "256"
"""How many of its steps a server keeps, where MAXLAB_TRACE_EVENTS says nothing: nobody looks at
them, and each has some kilobytes."""
_LIMITS = {
    "body_bytes": ("--max-body-bytes", "the most bytes of a request"),
    "answers": ("--max-answers", "the most answers that are written or wait at a time"),
    "answers_each": ("--max-answers-each", "the most answers of one request"),
    "images": ("--max-images", "the most images of one request"),
    "image_pixels": ("--max-image-pixels", "the most pixels of an image"),
    "connections": ("--max-connections", "the most connections"),
    "request_s": ("--request-timeout", "seconds for an answer"),
    "receive_s": ("--receive-timeout", "seconds for a request to arrive"),
    "send_s": ("--send-timeout", "seconds that a client may read nothing"),
    "shutdown_s": ("--shutdown-timeout", "seconds for answers to end when the server does"),
}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the arguments of the command.

    Args:
        parser: The parser of the command.
    """
    parser.add_argument("model", help="a folder with a model, or its name on a hub: ORG/NAME")
    parser.add_argument(
        "--host", default="127.0.0.1", help="where to listen; another than 127.0.0.1 needs a token"
    )
    parser.add_argument("--port", type=int, default=8000, help="8000 by default; 0 is a free one")
    parser.add_argument(
        "--token-file",
        type=Path,
        metavar="FILE",
        help=f"a file with the token that requests have to bring; or set {TOKEN_VARIABLE}",
    )
    for name, (flag, told) in _LIMITS.items():
        kind = float if name.endswith("_s") else int
        parser.add_argument(flag, dest=f"limit_{name}", type=kind, metavar="N", help=told)


def serve(options: argparse.Namespace, settings: Sequence[str]) -> int:
    """Serves a model until a signal ends it; 0 then, and 2 when the model ended by itself.

    Args:
        options: The arguments of the command.
        settings: The flags that are settings of the pipeline.

    Raises:
        MissingPackageError: ML979, a package of the extra ``serve`` is not installed.
        InputError: ML188, ML190, the address needs a token, or the token is none; ML125, a flag
            that there is not; and what `PipelineConfig` raises.
        ExecutionError: ML189, nothing can listen there.
    """
    from maxlab.interfaces.needing import needed_by

    with needed_by("maxlab serve", "starlette", "serve"):
        import starlette  # noqa: F401
    with needed_by("maxlab serve", "uvicorn", "serve"):
        import uvicorn  # noqa: F401
    from maxlab.serve.limits import Limits, check_address
    from maxlab.serve.server import ModelServer

    os.environ.setdefault("MAXLAB_TRACE_EVENTS", KEPT_EVENTS)
    token = _token(options.token_file)
    check_address(options.host, token)  # before the model is loaded, which takes long
    given = {name: getattr(options, f"limit_{name}") for name in _LIMITS}
    limits = Limits(**{name: value for name, value in given.items() if value is not None})
    engine = engine_of(options.model, settings, limits.answers)
    try:
        server = ModelServer(engine, limits, host=options.host, port=options.port, token=token)
        _tell(f"serving {engine.name} ({engine.task}) at {server.url}")
        ended = server.run_here()
    finally:
        engine.close()
    if ended is not None:
        _tell(f"maxlab serve: {ended}", sys.stderr)
        return 2
    _tell("the server has ended")
    return 0


def engine_of(model: str, settings: Sequence[str], most: int) -> Any:
    """The engine of a model, which is loaded now.

    Args:
        model: A folder, or a name on a hub.
        settings: Flags of the pipeline's settings.
        most: The most answers that are written or wait at a time.

    Raises:
        InputError, MaxlabError: The settings are wrong, or the model cannot be loaded.
    """
    from maxlab.errors import InputError
    from maxlab.interfaces import PipelineTask
    from maxlab.pipelines.architectures import register_all_models
    from maxlab.pipelines.lib.config import AudioGenerationConfig, PipelineConfig
    from maxlab.pipelines.lib.registry import PIPELINE_REGISTRY
    from maxlab.serve.embedding import EmbeddingEngine
    from maxlab.serve.engine import TextEngine
    from maxlab.serve.speech import SpeechEngine

    register_all_models()
    if any(one.partition("=")[0] == AUDIO_FLAG for one in settings):
        return SpeechEngine(AudioGenerationConfig.from_arguments(settings, model_path=model), most)
    config = PipelineConfig.from_arguments(settings, model_path=model)
    task = PIPELINE_REGISTRY.retrieve_pipeline_task(config)
    if task is PipelineTask.EMBEDDINGS_GENERATION:
        return EmbeddingEngine(config, most)
    if task is PipelineTask.AUDIO_GENERATION:
        raise InputError(
            "ML129",
            f"{model} is a model of audio, and needs the flag audio_decoder",
            fix=f"give {AUDIO_FLAG} NAME",
        )
    on = {name: True for name in FEATURES if config.is_open(name)}
    return TextEngine(PipelineConfig.from_arguments(settings, model_path=model, **on), most)


def _token(path: Path | None) -> str | None:
    """The token of a file, or of the environment."""
    from maxlab import files

    if path is not None:
        return files.read_text(path, "the token", most=1 << 16).strip()
    return os.environ.get(TOKEN_VARIABLE)


def _tell(text: str, stream: Any = None) -> None:
    out = stream or sys.stdout
    out.write(f"{text}\n")
    out.flush()


__all__ = ["FEATURES", "TOKEN_VARIABLE", "add_arguments", "engine_of", "serve"]
