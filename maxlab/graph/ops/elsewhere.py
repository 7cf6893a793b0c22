"""Names of other libraries that ``ops`` does not have, and what there is instead."""

from __future__ import annotations

_TORCH = (
    "run the module with maxlab.torch.load(module, x), which lets torch run what maxlab has not"
)
_POOL = "use ops.avg_pool2d or ops.max_pool2d"

INSTEAD: dict[str, str] = {
    "conv1d": "give the images a height of 1: ops.conv2d",
    "conv_transpose2d": "use ops.conv2d_transpose",
    "conv_transpose1d": "give the images a height of 1: ops.conv2d_transpose",
    "interpolate": "use ops.resize, which is bicubic, or ops.repeat_interleave for nearest",
    "upsample": "use ops.resize, which is bicubic, or ops.repeat_interleave for nearest",
    "svd": "compute it of a result: np.linalg.svd(result.to_numpy())",
    "inv": "compute it of a result: np.linalg.inv(result.to_numpy())",
    "solve": "compute it of a result: np.linalg.solve(result.to_numpy(), b)",
    "fft": "compute it of a result: np.fft.fft(result.to_numpy()); on GPUs there is ops.irfft",
    "array": "use ops.constant(array, DType.float32, DeviceRef.CPU())",
    "asarray": "use ops.constant(array, DType.float32, DeviceRef.CPU())",
    "tensor": "use ops.constant(array, DType.float32, DeviceRef.CPU())",
    "from_numpy": "use ops.constant(array)",
    "rand": "use ops.random.uniform",
    "randn": "use ops.random.normal",
    "manual_seed": "use ops.random.set_seed",
    "group_norm": "use maxlab.nn.GroupNorm",
    "multi_head_attention_forward": "use ops.scaled_dot_product_attention",
    "adaptive_avg_pool2d": f"give the window: {_POOL}",
    "max_pool1d": _POOL,
    "avg_pool1d": _POOL,
    "unfold": "use ops.conv2d, which forms no windows",
    "cross_entropy": "use -ops.log_softmax(x) at the targets: graphs compute no gradients",
    "nll_loss": "use -ops.gather at the targets: graphs compute no gradients",
    "ctc_loss": _TORCH,
    "grid_sample": _TORCH,
    "scan": "use ops.while_loop, or ops.cumsum",
    "fori_loop": "use ops.while_loop",
    "vmap": "ops broadcast over leading dims: give the input one dim more",
    "grad": "graphs compute no gradients in this version",
    "prod": "use ops.exp(ops.sum(ops.log(x))) for positive elements",
    "bitwise_and": "use ops.logical_and for bools",
    "size": "use x.shape",
    "view": "use ops.reshape",
    "to": "use ops.cast or ops.transfer_to",
}
