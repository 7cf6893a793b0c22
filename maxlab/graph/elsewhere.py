"""Names of other libraries that ``ops`` does not have, and what there is instead."""

from __future__ import annotations

from collections.abc import Mapping
from types import ModuleType

_TORCH = (
    "run the module with maxlab.torch.load(module, x), which lets torch run what maxlab has not"
)
_CONSTANT = "use ops.constant(array), or ops.constant(array, DType.float32, DeviceRef.CPU())"
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
    "array": _CONSTANT,
    "asarray": _CONSTANT,
    "tensor": _CONSTANT,
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
    "expand": "use ops.broadcast_to(x, shape)",
    "astype": "use ops.cast(x, DType.float16)",
    "addmm": "write x + y @ m @ w: each operator is an op",
    "baddbmm": "write x + y @ z: ops.matmul has batches too",
    "lerp": "write x + (y - x) * 0.5",
    "addcmul": "write x + y * p",
    "addcdiv": "write x + y / p",
    "fmod": "use ops.mod(x, y), whose sign is that of y",
    **dict.fromkeys(
        ("atan2", "arctan2"), "compute it of a result: np.arctan2(result.to_numpy(), 1)"
    ),
    "diag": "NumPy's works: np.diag(v)",
    "diagonal": "NumPy's works: np.diagonal(q)",
    "trace": "NumPy's works: np.trace(q)",
    "diff": "NumPy's works: np.diff(x)",
    **dict.fromkeys(("allclose", "isclose"), "NumPy's work: np.allclose(x, y), np.isclose(x, y)"),
    "repeat": "use ops.repeat_interleave as NumPy's, ops.tile as PyTorch's",
    "masked_select": "the number of elements is a dim: ops.gather_nd(x, ops.nonzero(b, 'count'))",
    "unique": "compute it of a result: np.unique(result.to_numpy())",
    "bincount": "compute it of a result: np.bincount(result.to_numpy())",
    "histc": "compute it of a result: np.histogram(result.to_numpy())",
    "searchsorted": "compute it of a result: np.searchsorted(result.to_numpy(), v)",
    "meshgrid": "use ops.unsqueeze and ops.broadcast_to",
    "identity": "use ops.eye for a matrix; a value of the graph is its own identity",
    "reduce_sum": "use ops.sum(x)",
    "reduce_mean": "use ops.mean(x)",
    "reduce_max": "use ops.max(x)",
    "reduce_min": "use ops.min(x)",
    "ReLU": "use ops.relu(x); as a layer maxlab.nn.ReLU()",
    "GELU": "use ops.gelu(x); as a layer maxlab.nn.GELU()",
    "Softmax": "use ops.softmax(x); as a layer maxlab.nn.Softmax()",
    "attention": "use ops.scaled_dot_product_attention(q, k, v)",
    **dict.fromkeys(("nn", "functional"), "the functions are in ops itself: ops.relu(x)"),
    "set_seed": "use ops.random.set_seed(0)",
    **dict.fromkeys(
        ("stop_gradient", "checkpoint", "detach"), "leave it away: graphs compute no gradients"
    ),
    "prelu": "write ops.where(x > 0, x, x * y)",
    "cdist": "write ops.norm(x) of differences: ops.unsqueeze(x, 1) - ops.unsqueeze(y, 0)",
    "pairwise_distance": "write ops.norm(x - y)",
    **dict.fromkeys(("lgamma", "digamma", "erfinv", "erfc", "gammaln"), _TORCH),
    **dict.fromkeys(("complex", "view_as_complex"), "no dtype is complex: keep two tensors"),
    **dict.fromkeys(("shift_left", "left_shift"), "no op shifts bits: write x * 2**n"),
    "map": "ops broadcast over leading dims; a loop is ops.while_loop",
    **dict.fromkeys(("assert_", "check"), "a graph checks shapes: ops.rebind(x, shape, message)"),
    "prod": "use ops.exp(ops.sum(ops.log(x))) for positive elements",
    "cumprod": "use ops.exp(ops.cumsum(ops.log(x))) for positive elements",
    **{
        name: f"compute it of a result: np.{name}(result.to_numpy())"
        for name in ("median", "histogram", "cov", "corrcoef", "nanmedian")
    },
    **dict.fromkeys(
        ("quantile", "percentile"), "compute it of a result: np.quantile(result.to_numpy(), 0.5)"
    ),
    "mode": "compute it of a result: np.unique(result.to_numpy(), return_counts=True)",
    **{
        name: f"compute it of a result: np.arc{name.removeprefix('arc').removeprefix('a')}"
        "(result.to_numpy())"
        for name in ("asin", "arcsin", "atan", "arctan", "asinh", "arcsinh", "acosh", "arccosh")
    },
    "kron": "compute it of results: np.kron(result.to_numpy(), result.to_numpy())",
    "cross": "compute it of arrays: np.cross(V[:3], C)",
    "logit": "write ops.log(p / (1 - p))",
    "frac": "write x - ops.trunc(x)",
    "kl_div": "write ops.sum(p * ops.log(p)) with the terms that it has",
    "binary_cross_entropy": "write it with ops.log(p): graphs compute no gradients",
    **dict.fromkeys(
        ("bernoulli", "multinomial", "rand_like", "randn_like"),
        "compare or convert numbers of ops.random.uniform",
    ),
    **dict.fromkeys(("jit", "compile"), "a graph is compiled whole: maxlab.compile(doubled())"),
    **dict.fromkeys(("no_grad", "inference_mode"), "leave it away: graphs compute no gradients"),
    "shape": "use x.shape",
    "rank": "use x.rank",
    "numel": "use x.numel()",
    **dict.fromkeys(("argwhere", "flatnonzero"), "use ops.nonzero(x, 'count')"),
    **dict.fromkeys(
        ("placeholder", "Input"),
        "inputs are types of a graph: input_types=[TensorType(DType.float32, ['n', 4])]",
    ),
    **dict.fromkeys(
        ("Variable", "variable", "Parameter"), "use Weight('w', DType.float32, [4, 4])"
    ),
    **dict.fromkeys(("Tensor", "to_tensor", "as_tensor", "convert_to_tensor"), _CONSTANT),
    "assert_equal": "compare results, or in the graph: np.array_equal(x, y)",
    "log_sigmoid": "use ops.logsigmoid",
    "bitwise_and": "use ops.logical_and for bools",
    "size": "use x.shape",
    "view": "use ops.reshape",
    "to": "use ops.cast or ops.transfer_to",
}

CALLS: dict[str, str] = {
    "where": "ops.where(b, x, y); the places where b is true: ops.nonzero(b, 'places')",
    "cond": "ops.cond(b[0, 0], [x.type], lambda: x, lambda: y)",
    "while_loop": "ops.while_loop([v], lambda x: x[0] < 0, lambda x: [x])",
    "cast": "ops.cast(x, DType.float16)",
    "one_hot": "ops.one_hot(i, 8)",
    "layer_norm": "ops.layer_norm(x, v, v, 1e-5)",
    "reshape": "ops.reshape(x, (4, 2))",
    "argsort": "ops.argsort(v, ascending=False); along an axis: x.argsort(dim=1)",
    "einsum": "ops.einsum('ij->ji', x)",
    "gather": "ops.gather(x, indices, axis=1)",
    "nonzero": "ops.nonzero(x, 'count')",
    "squeeze": "ops.squeeze(x, 0)",
    "custom": "ops.custom(name, x.device, [x], [x.type])",
    "pad": "ops.pad(x, [0, 0, 1, 1])",
    "repeat_interleave": "ops.repeat_interleave(x, 2, axis=1)",
    "uniform": "ops.random.uniform(TensorType(DType.float32, [2], DeviceRef.CPU()))",
    **{
        name: f"ops.{name}(x, y)"
        for name in ("add", "sub", "mul", "div", "pow", "maximum", "minimum", "matmul", "equal")
    },
    **{
        name: f"ops.{name}(x)"
        for name in ("relu", "gelu", "exp", "sqrt", "tanh", "sigmoid", "silu", "abs", "softmax")
    },
}
"""Calls of ops that show their arguments, told where a call does not fit."""

RANDOM: dict[str, str] = {
    **dict.fromkeys(("randn", "standard_normal"), "use ops.random.normal"),
    **dict.fromkeys(("rand", "random"), "use ops.random.uniform"),
    **dict.fromkeys(("seed", "manual_seed", "key", "PRNGKey"), "use ops.random.set_seed(0)"),
    **dict.fromkeys(
        ("randint", "integers"), "round numbers of ops.random.uniform: ops.cast(x, DType.int32)"
    ),
    **dict.fromkeys(
        ("choice", "bernoulli", "binomial"), "compare or convert numbers of ops.random.uniform"
    ),
    **dict.fromkeys(
        ("permutation", "shuffle", "randperm"),
        "an order of NumPy is a constant: ops.gather(x, np.random.permutation(8) % 2, 0)",
    ),
}
"""Names of other libraries that ``ops.random`` does not have."""

LINALG: dict[str, str] = {
    "norm": "use ops.norm(x), or NumPy's: np.linalg.norm(x)",
    **{
        name: f"compute it of a result: np.linalg.{name}(result.to_numpy()[:2, :2])"
        for name in ("inv", "det", "svd", "eig", "eigh", "qr", "cholesky", "pinv")
    },
    "solve": "compute it of a result: np.linalg.solve(result.to_numpy(), b)",
}
"""Names of other libraries that ``ops.linalg`` does not have."""


def names(module: Mapping[str, object]) -> list[str]:
    """The functions among the names of ``ops``, which has modules too; and its random numbers."""
    functions = [name for name, one in module.items() if not isinstance(one, ModuleType)]
    return [name for name in (*functions, "random") if name.islower()]
