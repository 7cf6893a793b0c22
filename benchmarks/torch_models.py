"""What becomes of well-known models in ``maxlab.torch.load``: ``python -m benchmarks.torch_models
[MODEL ...] [--json FILE] [--markdown FILE]``.

Models of torchvision, timm and transformers by name, with random weights, nothing downloaded. Each
is loaded in a process of its own with an empty kernel cache, called once, and compared with torch:

- *whole*: every operation became maxlab's;
- *partly*: torch runs some operations, as steps of the same plan; the table names them;
- *refused*: ``load`` raised an error with a code, or the process failed.

An error is the largest difference of two elements of an output, as a fraction of the largest
element of that output. Times are one reading each, on whatever the machine does meanwhile: *import*
is ``torch.export`` and building the graph, *compile* is all of ``load`` after that.

torchvision and timm come from an environment of their own, beside torch and transformers:

    python -m venv /tmp/models && /tmp/models/bin/pip install torch torchvision timm transformers
    /tmp/models/bin/pip install -e .
"""

from __future__ import annotations

import argparse
import contextlib
import datetime as dt
import importlib
import importlib.metadata
import json
import multiprocessing
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

R = TypeVar("R")
SECONDS = 600
"""After so many seconds a model counts as refused."""
VISION = (
    "resnet18", "resnet50", "vgg11", "squeezenet1_1", "densenet121", "shufflenet_v2_x1_0",
    "mobilenet_v2", "mobilenet_v3_small", "efficientnet_b0", "regnet_y_400mf", "convnext_tiny",
    "vit_b_16", "swin_t", "segmentation.lraspp_mobilenet_v3_large", "video.r3d_18",
)  # fmt: skip
TIMM = (
    "deit_tiny_patch16_224", "mixer_s16_224", "resmlp_12_224", "regnety_004", "poolformer_s12",
    "ghostnet_100", "mobilevit_xxs", "levit_128s", "pvt_v2_b0", "xcit_nano_12_p16_224",
    "eva02_tiny_patch14_224", "convmixer_768_32",
)  # fmt: skip


@dataclass
class Row:
    """What became of one model.

    Attributes:
        model: Its name, the library first.
        outcome: ``"whole"``, ``"partly"`` or ``"refused"``.
        size: ``"published"``, or ``"small"`` for a configuration with fewer and narrower layers.
        parameters: How many numbers its parameters have.
        ours: How many operations of the exported program maxlab runs.
        theirs: The operations that torch runs, and how often each stands there.
        error: The largest difference from torch as a fraction of the largest element.
        agrees: Whether the outputs agree with torch's within the tolerance of ``check``.
        import_s: Seconds of ``torch.export`` and of building the graph.
        compile_s: Seconds of the rest of ``load``, with no kernel in the cache.
        why: Why it was refused: the first line of the error.
    """

    model: str
    outcome: str = "refused"
    size: str = "published"
    parameters: int = 0
    ours: int = 0
    theirs: dict[str, int] = field(default_factory=dict)
    error: float | None = None
    agrees: bool | None = None
    import_s: float | None = None
    compile_s: float | None = None
    why: str = ""


# ---------------------------------------------------------------- the models
Made = tuple[Any, tuple[Any, ...], dict[str, Any], str]
"""A module, what it is called with by place and by name, and of what size it is."""


def _import_torchvision() -> None:
    """Import torchvision, also where its compiled part was built for another torch: then the
    operators that its modules declare something about are known by name alone."""
    import torch

    try:
        importlib.import_module("torchvision")
    except RuntimeError:
        library = torch.library.Library("torchvision", "FRAGMENT")
        for name in ("nms", "qnms"):
            with contextlib.suppress(RuntimeError):
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        for name in [n for n in sys.modules if n.split(".")[0] == "torchvision"]:
            del sys.modules[name]
        importlib.import_module("torchvision")
        _KEPT.append(library)


_KEPT: list[Any] = []
"""Declarations of operators, which last as long as these objects."""


def _vision(name: str) -> Made:
    import torch
    import torchvision

    options = {"weights_backbone": None} if name.startswith("segmentation.") else {}
    module = torchvision.models.get_model(name.rpartition(".")[2], weights=None, **options)
    if name.startswith("video."):
        return module, (torch.rand(1, 3, 8, 112, 112),), {}, "published"
    return module, (torch.rand(1, 3, 224, 224),), {}, "published"


def _timm(name: str) -> Made:
    import timm
    import torch

    module = timm.create_model(name, pretrained=False)
    _, height, width = timm.data.resolve_model_data_config(module)["input_size"]
    return module, (torch.rand(1, 3, height, width),), {}, "published"


SMALL = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 4}
WORDS = {"vocab_size": 1000, **SMALL, "intermediate_size": 128}
GROUPED = {**WORDS, "num_key_value_heads": 2, "head_dim": 16}
EIGHT = {"num_experts": 8, "num_experts_per_tok": 2, "moe_intermediate_size": 64}
TEXT: dict[str, tuple[str, str, dict[str, Any] | None]] = {
    "bert": ("BertModel", "BertConfig", None),
    "distilbert": ("DistilBertModel", "DistilBertConfig", None),
    "roberta": ("RobertaModel", "RobertaConfig", None),
    "albert": ("AlbertModel", "AlbertConfig", {**WORDS, "embedding_size": 32}),
    "deberta_v2": (
        "DebertaV2Model", "DebertaV2Config",
        {**WORDS, "relative_attention": True, "pos_att_type": ["p2c", "c2p"]},
    ),
    "modernbert": ("ModernBertModel", "ModernBertConfig", {**WORDS, "pad_token_id": 0}),
    "gpt2": ("GPT2LMHeadModel", "GPT2Config", None),
    "gpt_neox": ("GPTNeoXForCausalLM", "GPTNeoXConfig", WORDS),
    "opt": ("OPTForCausalLM", "OPTConfig", {**WORDS, "ffn_dim": 128, "word_embed_proj_dim": 64}),
    "bloom": ("BloomForCausalLM", "BloomConfig", {"vocab_size": 1000, "hidden_size": 64,
                                                  "n_layer": 2, "n_head": 4}),
    "llama": ("LlamaForCausalLM", "LlamaConfig", GROUPED),
    "mistral": ("MistralForCausalLM", "MistralConfig", {**GROUPED, "sliding_window": 8}),
    "qwen3": ("Qwen3ForCausalLM", "Qwen3Config", GROUPED),
    "gemma2": ("Gemma2ForCausalLM", "Gemma2Config", {**GROUPED, "sliding_window": 8}),
    "phi3": ("Phi3ForCausalLM", "Phi3Config", {**GROUPED, "pad_token_id": 0}),
    "qwen3_moe": ("Qwen3MoeForCausalLM", "Qwen3MoeConfig", {**GROUPED, **EIGHT}),
    "mamba": ("MambaForCausalLM", "MambaConfig", {"vocab_size": 1000, "hidden_size": 64,
                                                  "num_hidden_layers": 2}),
    "t5_encoder": ("T5EncoderModel", "T5Config", None),
    "bart": ("BartModel", "BartConfig", {"vocab_size": 1000, "d_model": 64, "encoder_layers": 2,
                                         "decoder_layers": 2, "encoder_attention_heads": 4,
                                         "decoder_attention_heads": 4, "encoder_ffn_dim": 128,
                                         "decoder_ffn_dim": 128}),
}  # fmt: skip
"""Models of words: the class, its configuration, and what is smaller there; None: nothing is."""


def _text(name: str) -> Made:
    import torch
    import transformers

    model, config, smaller = TEXT[name]
    settings = getattr(transformers, config)(**(smaller or {}))
    ids = torch.randint(3, 1000, (1, 32), generator=torch.Generator().manual_seed(1))
    named = {"input_ids": ids}
    if "use_cache" in settings.to_dict():
        named["use_cache"] = False
    made = getattr(transformers, model)(settings)
    return made, (), named, "small" if smaller else "published"


def _whisper_encoder() -> Made:
    import torch
    import transformers

    config = transformers.WhisperConfig()
    encoder = transformers.WhisperModel(config).get_encoder()
    return encoder, (torch.rand(1, config.num_mel_bins, 3000),), {}, "published"


def _wav2vec2() -> Made:
    import torch
    import transformers

    config = transformers.Wav2Vec2Config(**SMALL, intermediate_size=128)
    return transformers.Wav2Vec2Model(config), (torch.rand(1, 16000),), {}, "small"


def _clip() -> Made:
    import torch
    import transformers

    config = transformers.CLIPConfig(
        text_config={**WORDS, "eos_token_id": 999},
        vision_config={**SMALL, "intermediate_size": 128, "image_size": 64, "patch_size": 16},
    )
    named = {"input_ids": torch.arange(968, 1000)[None], "pixel_values": torch.rand(1, 3, 64, 64)}
    return transformers.CLIPModel(config), (), named, "small"


def _t5() -> Made:
    import transformers

    _, _, named, _ = _text("t5_encoder")
    named["decoder_input_ids"] = named["input_ids"][:, :8]
    module = transformers.T5ForConditionalGeneration(transformers.T5Config())
    return module, (), {**named, "use_cache": False}, "published"


MODELS: dict[str, Callable[[], Made]] = {
    **{f"torchvision/{name}": partial(_vision, name) for name in VISION},
    **{f"timm/{name}": partial(_timm, name) for name in TIMM},
    **{f"transformers/{name}": partial(_text, name) for name in TEXT},
    "transformers/t5": _t5,
    "transformers/whisper_encoder": _whisper_encoder,
    "transformers/wav2vec2": _wav2vec2,
    "transformers/clip": _clip,
}


# ---------------------------------------------------------------- one model
def fill_zeros(module: Any) -> None:
    """Give parameters that begin as zeros small random numbers: a last layer of zeros would hide
    whatever goes wrong before it."""
    import torch

    with torch.no_grad():
        for parameter in module.parameters():
            if not parameter.any():
                parameter.normal_(0.0, 0.1)


def measure(name: str) -> Row:
    """What becomes of one model, in this process, whose kernel cache is empty."""
    import torch

    import maxlab.torch
    from maxlab import trace
    from maxlab.errors import MaxlabError

    row = Row(name)
    imports: list[float] = []

    def note(event: trace.Event) -> None:
        if event.kind == "import":
            imports.append(event.dur_ns / 1e9)

    trace.recorder().listen(note)
    torch.manual_seed(0)
    _import_torchvision()  # transformers looks for it too
    module, inputs, named, row.size = MODELS[name]()
    module.eval()
    fill_zeros(module)
    row.parameters = sum(p.numel() for p in module.parameters())
    try:
        started = time.perf_counter()
        model = maxlab.torch.load(module, *inputs, **named)
        total = time.perf_counter() - started
        agreement = model.check(*inputs, **named)
    except MaxlabError as error:
        row.why = str(error).splitlines()[0]
        return row
    except Exception as error:  # a bare error counts against maxlab, and is shown
        row.why = f"{type(error).__name__}: {str(error).strip()}".splitlines()[0]
        return row
    row.import_s, row.compile_s = round(imports[-1], 2), round(total - imports[-1], 2)
    row.ours = sum(r.count for r in model.coverage if r.by == "maxlab")
    for ran in model.coverage:
        if ran.by == "torch":
            row.theirs[ran.name] = row.theirs.get(ran.name, 0) + ran.count
    row.error, row.agrees = float(f"{agreement.relative:.2g}"), agreement.ok
    row.outcome = "partly" if row.theirs else "whole"
    return row


def in_a_process(name: str) -> Row:
    """``measure`` in a process of its own, with a cache in which there is only the run-time
    library that every graph needs."""
    return run_alone(measure, name, failed=lambda name, why: Row(name, why=why))


def run_alone(
    measured: Callable[..., R], name: str, *args: Any, failed: Callable[[str, str], R]
) -> R:
    """``measured(name, *args)`` in a process with a kernel cache of its own; ``failed`` makes the
    row of a model for which the process did not end well."""
    cache = tempfile.mkdtemp(prefix="maxlab-models-")
    pool = ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn"), initializer=_begin, initargs=(cache,)
    )
    try:
        return pool.submit(measured, name, *args).result(timeout=SECONDS)
    except TimeoutError:
        for process in multiprocessing.active_children():
            process.kill()
        return failed(name, f"not done after {SECONDS} s")
    except BrokenProcessPool:
        return failed(name, "the process ended")
    except Exception as error:  # of the model: the others are measured all the same
        return failed(name, f"{type(error).__name__}: {str(error).strip()}".splitlines()[0])
    finally:
        pool.shutdown(wait=True, cancel_futures=True)
        shutil.rmtree(cache, ignore_errors=True)


def _begin(cache: str) -> None:
    os.environ["MAXLAB_CACHE_DIR"] = cache
    os.environ["HF_HUB_OFFLINE"] = "1"
    from maxlab import engine
    from maxlab.dtype import DType
    from maxlab.graph import Graph, TensorType

    graph = Graph("first", lambda x: x + 1, [TensorType(DType.float32, ["n"])])
    engine.InferenceSession().load(graph)


# ---------------------------------------------------------------- the table
def table(rows: list[Row]) -> str:
    """The rows as Markdown."""
    lines = [
        "| model | parameters | result | error | import | compile |",
        "| --- | ---: | --- | ---: | ---: | ---: |",
    ]
    for row in rows:
        size = f"{row.parameters / 1e6:.1f} M" + (" (small)" if row.size == "small" else "")
        if row.outcome == "refused":
            why = row.why.replace("|", "\\|")
            lines.append(f"| {row.model} | {size} | refused: {why} | | | |")
            continue
        left = ", ".join(f"`{name}` ×{count}" for name, count in row.theirs.items())
        result = f"{row.ours} by maxlab, {sum(row.theirs.values())} by torch: {left}"
        if row.outcome == "whole":
            result = f"**whole**, {row.ours}"
        if not row.agrees:
            result += ", **differs**"
        lines.append(
            f"| {row.model} | {size} | {result} | {row.error:.1e} | {row.import_s:.1f} s "
            f"| {row.compile_s:.1f} s |"
        )
    return "\n".join(lines)


def machine() -> dict[str, Any]:
    """Where it ran."""
    packages = ("torch", "torchvision", "timm", "transformers")
    return {
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": platform.machine(),
        "cpus": len(os.sched_getaffinity(0)),
        "python": platform.python_version(),
        **{name: importlib.metadata.version(name) for name in packages},
    }


def main() -> None:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="*", help="names, or the beginnings of names")
    parser.add_argument(
        "--json", type=Path, help="write the rows here, beside those of other models"
    )
    parser.add_argument("--markdown", type=Path, help="write the table here, between its marks")
    options = parser.parse_args()
    wanted = tuple(options.models) or ("",)
    kept = options.json.read_text("utf-8") if options.json and options.json.exists() else "{}"
    found = {row["model"]: Row(**row) for row in json.loads(kept).get("models", ())}
    for name in MODELS:
        if name.startswith(wanted):
            found[name] = in_a_process(name)
            print(table([found[name]]).splitlines()[-1], flush=True)
    rows = [found[name] for name in MODELS if name in found]
    if options.json:
        made = {**machine(), "models": [asdict(row) for row in rows]}
        options.json.write_text(json.dumps(made, indent=1) + "\n", "utf-8")
    if options.markdown:
        write_between_marks(options.markdown, table(rows))


MARKS = "<!-- made by python -m benchmarks.torch_models -->", "<!-- end -->"


def write_between_marks(page: Path, text: str, marks: tuple[str, str] = MARKS) -> None:
    """Put ``text`` between the ``marks`` of ``page``."""
    before, _, rest = page.read_text("utf-8").partition(marks[0])
    _, _, after = rest.partition(marks[1])
    page.write_text(f"{before}{marks[0]}\n{text}\n{marks[1]}{after}", "utf-8")


if __name__ == "__main__":
    main()
