"""Calls and names that differ by a word from those of NumPy and PyTorch; what rows may name is as
in the other families.
"""

from __future__ import annotations

from tests.habits.rows import Refused, rows

CALLS_WHILE_BUILDING = rows(
    ("pow(x, 2, 3)", "np.mod(X ** 2, 3)"),
    ("x.to(dtype=DType.float16)", "X.astype(np.float16)"),
    ("x.to(dtype='float64')", "X.astype(np.float64)"),
    ("x.to('cpu', dtype='float16')", "X.astype(np.float16)"),
    ("x.to('cpu', torch.float16)", "X.astype(np.float16)"),
    ("x.to(device='cpu')", "X"),
    ("x.to()", Refused("ML327", "x.to('cpu')")),
    ("F.relu(x)", Refused("ML965", "ops.relu(x)")),
    ("F.softmax(x, dim=-1)", Refused("ML965", "ops.softmax(x)")),
    ("torch.exp(x)", Refused("ML965", "ops.exp(x)")),
    ("torch.matmul(x, m)", Refused("ML965", "ops.matmul")),
    ("torch.cat([x, y])", Refused("ML965", "ops.cat")),
    ("torch.where(b, x, y)", Refused("ML965", "ops.where")),
    ("torch.linalg.norm(x)", Refused("ML965", "np.linalg.norm(result.to_numpy())")),
    ("x.device.type", Refused("ML964", "x.device.is_gpu()")),
    ("x.device.index", Refused("ML964", "x.device.id")),
    ("x.dtype.is_floating_point", "True"),
    ("i.dtype.is_floating_point", "False"),
    ("x.dtype.is_complex", "False"),
    ("x.dtype.foo", Refused("ML964", "")),
)

CALLS_AFTERWARDS = rows(
    ("tensor.size()", "(2, 4)"),
    ("tensor.size(0)", "2"),
    ("tensor.size(-1)", "4"),
    ("tensor.size", "8"),
    ("tensor.size == 8", "True"),
    ("Tensor.from_numpy(X.copy()).to(dtype='float16')", "X.astype(np.float16)"),
    ("Tensor.from_numpy(X.copy()).to(dtype=torch.float64)", "X.astype(np.float64)"),
    ("Tensor.from_numpy(X.copy()).to('cpu', dtype='float16')", "X.astype(np.float16)"),
    ("torch.exp(tensor)", Refused("ML965", "torch.from_dlpack(tensor)")),
    ("F.relu(tensor)", Refused("ML965", "torch.from_dlpack(tensor)")),
    ("torch.cat([tensor, tensor])", Refused("ML965", "torch.from_dlpack(tensor)")),
    ("graph.find(op='mul').ids == graph.find('op=mul').ids", "True"),
    ("graph.find(op='mul', dtype='f32').ids == graph.find('op=mul').ids", "True"),
    ("graph.find('f32', op='mul').ids == graph.find('op=mul').ids", "True"),
    ("len(graph.find(shape=[2, 4])) > 0", "True"),
    ("graph.find()", Refused("ML910", "")),
    ("InferenceSession(device='cpu')", Refused("ML618", "InferenceSession(devices=[driver.CPU()])")),  # noqa: E501
    ("InferenceSession(device=driver.CPU())", Refused("ML618", "InferenceSession(devices=[driver.CPU()])")),  # noqa: E501
    ("session.load(graph, {})", Refused("ML618", "session.load(graph, weights_registry={})")),
    ("Tensor.zeros((2,))", Refused("ML421", "driver.Tensor.zeros([2], DType.float32)")),
    ("Tensor.scalar(1)", Refused("ML421", "driver.Tensor.scalar(1, DType.float32)")),
    ("Tensor.randn(2)", Refused("ML964", "driver.Tensor.from_numpy(np.random.randn(2))")),
    ("Tensor.rand(2)", Refused("ML964", "driver.Tensor.from_numpy(np.random.rand(2))")),
    ("Tensor.arange(3)", Refused("ML964", "driver.Tensor.from_numpy(np.arange(3))")),
    ("Tensor.empty((2,))", Refused("ML964", "driver.Tensor(DType.float32, [2])")),
    ("Tensor.eye(2)", Refused("ML964", "driver.Tensor.from_numpy(np.eye(2))")),
    ("Tensor.from_torch(TX)", Refused("ML964", "driver.Tensor.from_dlpack(array)")),
    ("Tensor.from_list([1])", Refused("ML964", "driver.Tensor.from_numpy(np.array([1]))")),
    ("Tensor.constant(1)", Refused("ML964", "driver.Tensor.scalar(1, DType.float32)")),
    ("Tensor.stack([tensor])", Refused("ML964", "np.stack([tensor, tensor])")),
    ("Tensor.cat([tensor])", Refused("ML964", "np.concatenate([tensor, tensor])")),
    ("driver.device('cuda')", Refused("ML970", "driver.CPU()")),
    ("DType.float32(1)", Refused("ML970", "np.float32(1)")),
    ("DeviceRef.cpu()", Refused("ML964", "DeviceRef.CPU()")),
    ("DeviceRef.gpu()", Refused("ML964", "DeviceRef.GPU()")),
    ("DeviceRef.cuda()", Refused("ML964", "DeviceRef.GPU()")),
    ("DeviceRef.CUDA()", Refused("ML964", "DeviceRef.GPU()")),
    ("DeviceRef.from_str('cpu')", Refused("ML964", "DeviceRef('cpu')")),
    ("TensorType(DType.float32)", Refused("ML302", "TensorType(DType.float32, [])")),
)  # fmt: skip

__all__ = ["CALLS_AFTERWARDS", "CALLS_WHILE_BUILDING"]
