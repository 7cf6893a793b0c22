"""Chains of convolutions have the channels of their images last: the same numbers as torch's, and
no kernel between them that only turns an image."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")
from torch import Tensor, nn  # noqa: E402 - after the check
from torch.nn import functional as F  # noqa: E402, N812 - as everyone calls it

import maxlab.torch  # noqa: E402
from maxlab.driver import Tensor as Array  # noqa: E402
from maxlab.dtype import DType  # noqa: E402
from maxlab.engine import InferenceSession, Model  # noqa: E402
from maxlab.graph import DeviceRef, Graph, TensorType, TensorValue, ops  # noqa: E402
from maxlab.ir import ConvInputLayout, FilterLayout  # noqa: E402


class Net(nn.Module):  # type: ignore[misc, unused-ignore]
    """What lies between the convolutions of image networks."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 16, 3, 2, 1, bias=False)
        self.norm = nn.BatchNorm2d(16)
        self.each = nn.Conv2d(16, 16, 5, padding=2, groups=16)
        self.parts = nn.Conv2d(16, 32, 3, padding=1, groups=2)
        self.weigh = nn.Conv2d(32, 32, 1)
        self.side = nn.Conv2d(32, 32, 3, padding=1)
        self.down = nn.Conv2d(32, 24, (3, 1), (2, 1), (1, 0))
        self.up = nn.ConvTranspose2d(24, 32, 2, (2, 1), (0, 0))
        self.last = nn.Conv2d(64, 5, 1)

    def forward(self, x: Tensor) -> Tensor:
        x = F.hardswish(self.norm(self.first(x)))
        x = F.max_pool2d(F.relu(self.each(x)), 3, 1, 1)
        x = F.relu(self.parts(x))
        x = x * torch.sigmoid(self.weigh(x.mean((2, 3), keepdim=True)))
        x = F.relu(x + self.side(x))
        small = F.gelu(self.down(x))
        made: Tensor = self.last(torch.cat([x, self.up(small)[..., : x.shape[-1]]], 1))
        return made


@pytest.fixture(scope="module")
def net() -> tuple[nn.Module, Tensor, Model]:
    torch.manual_seed(0)
    module, x = Net().eval(), torch.randn(2, 3, 12, 14)
    module.norm.running_mean.uniform_(-1, 1)
    module.norm.running_var.uniform_(0.5, 2)
    return module, x, maxlab.torch.load(module, x, num_threads=1).model


def test_the_numbers_are_those_of_torch(net: tuple[nn.Module, Tensor, Model]) -> None:
    module, x, model = net
    with torch.no_grad():
        wanted = module.double()(x.double()).float().numpy()
    found = model.execute(Array.from_numpy(x.numpy()))[0].to_numpy()
    np.testing.assert_allclose(found, wanted, rtol=2e-5, atol=2e-5)


def test_an_image_is_turned_at_the_ends_alone(net: tuple[nn.Module, Tensor, Model]) -> None:
    _, _, model = net
    copies = [step.name for step in model.compiled.plan.steps if step.kind == "copy"]
    assert len(copies) <= 3, copies  # the input, the output, and the slice behind ``up``
    assert all("turn" not in step.name for step in model.compiled.plan.steps)


def conv(x: TensorValue, w: TensorValue) -> TensorValue:
    return ops.conv2d(x, w, input_layout=ConvInputLayout.NCHW, filter_layout=FilterLayout.FCRS)


@pytest.mark.parametrize("count", [1, 2])
def test_a_convolution_alone_stays_as_it_is(count: int) -> None:
    cpu, rng = DeviceRef.CPU(), np.random.default_rng(5)
    types = [
        TensorType(DType.float32, ("n", 16, "h", 9), cpu),
        TensorType(DType.float32, (16, 16, 2, 2), cpu),
    ]
    with Graph("few", input_types=types) as graph:
        x, w = (v.tensor for v in graph.inputs)
        for _ in range(count):
            x = conv(x, w)
        graph.output(x)
    model = InferenceSession().load(graph)
    assert model.passes["layout"].count == (count if count > 1 else 0)
    image = rng.standard_normal((2, 16, 7, 9)).astype(np.float32)
    filter = rng.standard_normal((16, 16, 2, 2)).astype(np.float32) / 8
    wanted = torch.from_numpy(image).double()
    for _ in range(count):
        wanted = F.conv2d(wanted, torch.from_numpy(filter).double())
    found = model.execute(Array.from_numpy(image), Array.from_numpy(filter))[0].to_numpy()
    np.testing.assert_allclose(found, wanted.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("size", [9, 40])
@pytest.mark.parametrize("widths", [(24, 40), (7, 9), (300, 212)])
def test_a_concat_that_one_convolution_reads_is_not_written(
    widths: tuple[int, int], size: int
) -> None:
    class Joined(nn.Module):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            super().__init__()
            self.left = nn.Conv2d(4, widths[0], 3, padding=1)
            self.right = nn.ConvTranspose2d(5, widths[1], 2, 2)
            self.after = nn.Conv2d(sum(widths), 20, 3, 2, 1)

        def forward(self, x: Tensor, small: Tensor) -> Tensor:
            both = torch.cat([F.relu(self.left(x)), self.right(small)], 1)
            made: Tensor = F.relu(self.after(both))
            return made

    torch.manual_seed(1)
    module = Joined().eval()
    x, small = torch.randn(2, 4, 2 * size, 2 * size), torch.randn(2, 5, size, size)
    model = maxlab.torch.load(module, x, small, num_threads=1).model
    assert not [step for step in model.plan.steps if step.kind == "concat"]
    with torch.no_grad():
        wanted = module.double()(x.double(), small.double()).float().numpy()
    found = model.execute(*(Array.from_numpy(a.numpy()) for a in (x, small)))[0].to_numpy()
    np.testing.assert_allclose(found, wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("channels", [1, 2, 3, 4, 5])
def test_images_of_few_channels_are_turned(channels: int, threads: int) -> None:
    shape = (3, channels, 67, 129)
    with Graph("turn", input_types=[TensorType(DType.float32, shape, DeviceRef.CPU())]) as graph:
        graph.output(ops.permute(graph.inputs[0].tensor, (0, 2, 3, 1)))
    model = InferenceSession(num_threads=threads).load(graph)
    image = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    found = model.execute(Array.from_numpy(image))[0].to_numpy()
    np.testing.assert_array_equal(found, image.transpose(0, 2, 3, 1))


@pytest.mark.parametrize("width", [1, 2, 7, 15, 29])
@pytest.mark.parametrize("window", [3, 5])
@pytest.mark.parametrize("stride", [1, 2])
def test_zeros_beside_an_image_add_nothing(width: int, window: int, stride: int) -> None:
    rng = np.random.default_rng(width)
    image = rng.standard_normal((2, 6, width, 16)).astype(np.float32)
    weight = rng.standard_normal((window, window, 16, 40)).astype(np.float32)
    pad = window // 2
    types = [TensorType(DType.float32, a.shape, DeviceRef.CPU()) for a in (image, weight)]
    with Graph("edges", input_types=types) as graph:
        x, w = (v.tensor for v in graph.inputs)
        graph.output(ops.conv2d(x, w, stride=(stride, stride), padding=(pad, pad, pad, pad)))
    found = (
        InferenceSession().load(graph).execute(Array.from_numpy(image), Array.from_numpy(weight))
    )
    wanted = F.conv2d(
        torch.from_numpy(image).double().permute(0, 3, 1, 2),
        torch.from_numpy(weight).double().permute(3, 2, 0, 1),
        stride=stride, padding=pad,
    )  # fmt: skip
    wanted = wanted.permute(0, 2, 3, 1).float().numpy()
    np.testing.assert_allclose(found[0].to_numpy(), wanted, rtol=1e-5, atol=1e-4)
