"""The networks of ``benchmarks.performance`` in torch, with random weights that are the same in
every process. ResNet18 and MobileNetV3 small are written out, so that torchvision is not needed.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F  # noqa: N812 - as everyone calls it


class ConvNet(nn.Module):  # type: ignore[misc, unused-ignore]
    """Four convolutions with pools between them, and a layer that classifies."""

    def __init__(self) -> None:
        super().__init__()
        widths = (3, 32, 64, 128, 128)
        self.convs = nn.ModuleList(
            nn.Conv2d(a, b, 3, padding=1) for a, b in itertools.pairwise(widths)
        )
        self.last = nn.Linear(128, 10)

    def forward(self, x: Tensor) -> Tensor:
        for conv in self.convs:
            x = F.max_pool2d(F.relu(conv(x)), 2)
        made: Tensor = self.last(x.mean((2, 3)))
        return made


def normed(a: int, b: int, window: int, stride: int = 1, groups: int = 1, act: Any = None) -> Any:
    """A convolution and its batch norm, then ``act``."""
    conv = nn.Conv2d(a, b, window, stride, window // 2, groups=groups, bias=False)
    return nn.Sequential(conv, nn.BatchNorm2d(b), *([act()] if act else []))


class Residual(nn.Module):  # type: ignore[misc, unused-ignore]
    """A block of ResNet18."""

    def __init__(self, a: int, b: int, stride: int) -> None:
        super().__init__()
        self.body = nn.Sequential(normed(a, b, 3, stride, act=nn.ReLU), normed(b, b, 3))
        self.side = nn.Identity() if stride == 1 and a == b else normed(a, b, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        return F.relu(self.body(x) + self.side(x))


def resnet18() -> nn.Module:
    """ResNet18, of 1,000 classes."""
    blocks: list[nn.Module] = []
    width = 64
    for stage, wide in enumerate((64, 128, 256, 512)):
        blocks += [Residual(width, wide, 1 if stage == 0 else 2), Residual(wide, wide, 1)]
        width = wide
    return nn.Sequential(
        normed(3, 64, 7, 2, act=nn.ReLU), nn.MaxPool2d(3, 2, 1), *blocks,
        nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 1000),
    )  # fmt: skip


class Squeeze(nn.Module):  # type: ignore[misc, unused-ignore]
    """What weighs the channels of MobileNetV3 by their means."""

    def __init__(self, width: int) -> None:
        super().__init__()
        between = max(8, (width // 4 + 4) // 8 * 8)
        self.body = nn.Sequential(
            nn.AdaptiveAvgPool2d(1), nn.Conv2d(width, between, 1), nn.ReLU(),
            nn.Conv2d(between, width, 1), nn.Hardsigmoid(),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        scale: Tensor = self.body(x)
        return x * scale


class Inverted(nn.Module):  # type: ignore[misc, unused-ignore]
    """A block of MobileNetV3."""

    def __init__(
        self, a: int, wide: int, b: int, window: int, stride: int, squeeze: bool, hard: bool
    ) -> None:
        super().__init__()
        act = nn.Hardswish if hard else nn.ReLU
        parts = [normed(a, wide, 1, act=act)] if wide != a else []
        parts.append(normed(wide, wide, window, stride, wide, act))
        parts += [Squeeze(wide)] if squeeze else []
        self.body = nn.Sequential(*parts, normed(wide, b, 1))
        self.added = stride == 1 and a == b

    def forward(self, x: Tensor) -> Tensor:
        made: Tensor = self.body(x)
        return made + x if self.added else made


SMALL = (
    (16, 16, 3, 2, True, False), (72, 24, 3, 2, False, False), (88, 24, 3, 1, False, False),
    (96, 40, 5, 2, True, True), (240, 40, 5, 1, True, True), (240, 40, 5, 1, True, True),
    (120, 48, 5, 1, True, True), (144, 48, 5, 1, True, True), (288, 96, 5, 2, True, True),
    (576, 96, 5, 1, True, True), (576, 96, 5, 1, True, True),
)  # fmt: skip
"""The blocks of MobileNetV3 small (arXiv:1905.02244, table 2): what it widens to, channels, window,
stride, whether it squeezes, whether its activation is hard swish."""


def mobilenet_v3_small() -> nn.Module:
    """MobileNetV3 small, of 1,000 classes."""
    blocks: list[nn.Module] = [normed(3, 16, 3, 2, act=nn.Hardswish)]
    width = 16
    for wide, b, window, stride, squeeze, hard in SMALL:
        blocks.append(Inverted(width, wide, b, window, stride, squeeze, hard))
        width = b
    return nn.Sequential(
        *blocks, normed(96, 576, 1, act=nn.Hardswish), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
        nn.Linear(576, 1024), nn.Hardswish(), nn.Linear(1024, 1000),
    )  # fmt: skip


class UNet(nn.Module):  # type: ignore[misc, unused-ignore]
    """A U-Net (arXiv:1505.04597) of four levels, with padded convolutions and batch norms."""

    def __init__(self) -> None:
        super().__init__()

        def twice(a: int, b: int) -> Any:
            return nn.Sequential(normed(a, b, 3, act=nn.ReLU), normed(b, b, 3, act=nn.ReLU))

        widths = (32, 64, 128, 256)
        pairs = list(itertools.pairwise(widths))
        self.down = nn.ModuleList([twice(3, 32), *(twice(a, b) for a, b in pairs)])
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in pairs[::-1])
        self.after = nn.ModuleList(twice(2 * a, a) for a, _ in pairs[::-1])
        self.last = nn.Conv2d(32, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        kept: list[Tensor] = []
        for n, down in enumerate(self.down):
            x = down(F.max_pool2d(x, 2) if n else x)
            kept.append(x)
        kept.pop()
        for up, after in zip(self.up, self.after, strict=True):
            x = after(torch.cat([kept.pop(), up(x)], 1))
        made: Tensor = self.last(x)
        return made


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "conv_net": (ConvNet, (8, 3, 64, 64)),
    "resnet18": (resnet18, (1, 3, 224, 224)),
    "mobilenet_v3_small": (mobilenet_v3_small, (1, 3, 224, 224)),
    "unet": (UNet, (1, 3, 128, 128)),
}
"""The networks by row, and the shapes of their images."""
NETS |= {f"{name}_fast": NETS[name] for name in ("conv_net", "resnet18", "unet")}


def net(name: str) -> tuple[nn.Module, tuple[Tensor, ...]]:
    """The network of a row, and its images. Batch norms have statistics as after training: neither
    zeros nor ones, and such that numbers keep their size."""
    make, shape = NETS[name]
    torch.manual_seed(0)
    module = make().eval()
    x = torch.rand(shape)
    for each in module.modules():
        if isinstance(each, nn.BatchNorm2d):
            each.momentum = None
            each.train()
    with torch.no_grad():
        module(x)
    return module.eval(), (x,)
