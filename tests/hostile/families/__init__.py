"""Every family of hostile input, in the order in which they run."""

from __future__ import annotations

from tests.hostile.families import (
    arguments,
    cache_files,
    clips,
    custom_kernels,
    dims,
    dlpack,
    documents,
    driver_tensors,
    gpu_launches,
    graph_text,
    inputs,
    integers,
    kernel_text,
    messages,
    monitor,
    names,
    paths,
    recordings,
    settings,
    signals,
    torch_objects,
    weight_files,
)
from tests.hostile.harness import Family

FAMILIES: tuple[Family, ...] = (
    *graph_text.FAMILIES,
    *clips.FAMILIES,
    *documents.FAMILIES,
    *weight_files.FAMILIES,
    *recordings.FAMILIES,
    *names.FAMILIES,
    *dims.FAMILIES,
    *inputs.FAMILIES,
    *messages.FAMILIES,
    *settings.FAMILIES,
    *kernel_text.FAMILIES,
    *arguments.FAMILIES,
    *paths.FAMILIES,
    *integers.FAMILIES,
    *cache_files.FAMILIES,
    *monitor.FAMILIES,
    *custom_kernels.FAMILIES,
    *driver_tensors.FAMILIES,
    *dlpack.FAMILIES,
    *gpu_launches.FAMILIES,
    *torch_objects.FAMILIES,
    *signals.FAMILIES,
)
