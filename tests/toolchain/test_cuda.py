"""CUDA text to cubins: what is cached, what is grouped, what is reported. Needs nvcc or NVRTC, no
GPU.
"""

from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from maxlab import config, trace
from maxlab.config import set_config
from maxlab.driver.backend import DeviceSource
from maxlab.errors import ToolchainError
from maxlab.toolchain import cuda, cuda_compiler, kernels_dir, nvlib, nvrtc
from maxlab.toolchain.artefacts import Key
from maxlab.toolchain.cuda import CudaFlags, CudaUnit, compile_cuda, ptx, sass
from maxlab.toolchain.cuda_compiler import NvccCompiler, NvrtcCompiler
from maxlab.toolchain.cuda_usage import parse_usage

ADD = DeviceSource(
    "k_add",
    """extern "C" __global__ void k_add(const float *a, const float *b, float *y, i64 n) {
  const i64 i = blockIdx.x * (i64)blockDim.x + threadIdx.x;
  if (i < n) y[i] = a[i] + b[i];
}
""",
)
# 64 x 4 bytes of shared memory, a barrier, and a product and a sum that can be fused.
SHARE = DeviceSource(
    "k_share",
    """extern "C" __global__ void k_share(float *x) {
  __shared__ float tile[64];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[63 - threadIdx.x] * x[threadIdx.x] + 1;
}
""",
)
TENSOR = DeviceSource(
    "k_tensor",
    """extern "C" __global__ void k_tensor(float *c, const u32 *a, const u32 *b) {
  mx_mma_m16n8k16_bf16(c + 4 * threadIdx.x, a + 4 * threadIdx.x, b + 2 * threadIdx.x);
}
""",
)
BROKEN = DeviceSource(
    "k_broken",
    """extern "C" __global__ void k_broken(float *x) {
  // the line below
  x[0] = missing;
}
""",
)

needs_nvcc = pytest.mark.skipif(nvlib.find_program("nvcc") is None, reason="nvcc is not installed")
needs_nvrtc = pytest.mark.skipif(
    nvrtc.find_nvrtc() is None,
    reason="libnvrtc.so.13 or .12 was not found; pip install nvidia-cuda-nvrtc",
)


@pytest.fixture(params=["nvcc", "nvrtc"])
def compiler(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each compiler in turn, if it is there."""
    if request.param == "nvcc":
        if nvlib.find_program("nvcc") is None:
            pytest.skip("nvcc is not installed")
        monkeypatch.setattr(cuda_compiler, "find_nvrtc", lambda: None)
    elif nvrtc.find_nvrtc() is None:
        pytest.skip("libnvrtc was not found; pip install nvidia-cuda-nvrtc")
    return str(request.param)


@pytest.fixture(autouse=True)
def fresh_cache(tmp_path: Path) -> Iterator[Path]:
    old = set_config(dataclasses.replace(config.config(), cache_dir=tmp_path / "cache"))
    yield tmp_path / "cache"
    set_config(old)


def elf_machine(unit: CudaUnit) -> int:
    assert unit.cubin[:4] == b"\x7fELF"
    return int.from_bytes(unit.cubin[18:20], "little")


# ---------------------------------------------------------------- what comes out


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100"])
def test_cubins_and_what_they_need(compiler: str, arch: str) -> None:
    add, share, tensor = compile_cuda([ADD, SHARE, TENSOR], arch)
    assert [u.name for u in (add, share, tensor)] == ["k_add", "k_share", "k_tensor"]
    for unit in (add, share, tensor):
        assert elf_machine(unit) == 190  # EM_CUDA
        assert unit.name.encode() in unit.cubin
        assert (unit.arch, unit.hit, unit.why_miss) == (arch, False, "new text")
        assert unit.usage is not None
        assert 4 <= unit.usage.registers <= 64
        assert unit.usage.spill_store_bytes == unit.usage.spill_load_bytes == 0
    assert add.usage is not None
    assert share.usage is not None
    assert (add.usage.shared_bytes, add.usage.barriers) == (0, 0)
    assert (share.usage.shared_bytes, share.usage.barriers) == (256, 1)


def test_headers_in_a_folder(compiler: str) -> None:
    text = """extern "C" __global__ void k_fourth(float *y, const u8 *w) {
  y[threadIdx.x] = mx_q4_0_element(w, threadIdx.x);
}
"""
    source = DeviceSource("k_fourth", text, ("prelude.cuh", "ops/quantized.cuh"))
    for hit in (False, True):
        (unit,) = compile_cuda([source], "sm_80")
        assert (unit.name, unit.hit) == ("k_fourth", hit)


def test_spills_are_counted(compiler: str) -> None:
    lines = "\n".join(f"  float v{i} = x[{i} * n + threadIdx.x];" for i in range(80))
    total = " + ".join(f"v{i} * v{79 - i}" for i in range(80))
    text = (
        f'extern "C" __global__ void k_full(float *x, i64 n) {{\n{lines}\n  __syncthreads();\n'
        f"  x[threadIdx.x] = {total};\n}}\n"
    )
    free, tight = (
        compile_cuda([DeviceSource("k_full", text)], "sm_80", flags=CudaFlags(max_registers=most))[
            0
        ]
        for most in (None, 32)
    )
    assert free.usage is not None
    assert tight.usage is not None
    assert free.usage.registers > 64
    assert free.usage.spill_store_bytes == 0
    assert tight.usage.registers <= 32
    assert tight.usage.spill_store_bytes > 0
    assert tight.usage.spill_load_bytes > 0
    assert tight.usage.stack_bytes > 0


def test_ptx_is_text_for_the_architecture(compiler: str) -> None:
    text = ptx(ADD, "sm_90a")
    assert ".target sm_90a" in text
    assert ".entry k_add" in text
    assert "add.f32" in text or "add.rn.f32" in text


def test_flags_reach_the_code(compiler: str) -> None:
    assert "fma.rn.f32" in ptx(SHARE, "sm_80")
    assert "fma.rn.f32" not in ptx(SHARE, "sm_80", flags=CudaFlags(fmad=False))
    divide = DeviceSource("k_div", 'extern "C" __global__ void k_div(float *x) { x[0] /= x[1]; }')
    assert "div.rn.f32" in ptx(divide, "sm_80")
    assert "div.approx" in ptx(divide, "sm_80", flags=CudaFlags(accuracy="fast"))
    named = DeviceSource("k_n", 'extern "C" __global__ void k_n(float *x) { x[0] = VALUE; }')
    assert str(0x40E00000) in ptx(named, "sm_80", flags=CudaFlags(defines=(("VALUE", "7.f"),)))
    with_lines, without = (
        compile_cuda([ADD], "sm_80", flags=CudaFlags(line_info=lines))[0] for lines in (True, False)
    )
    assert b".debug_line" in with_lines.cubin
    assert b".debug_line" not in without.cubin


def test_cuda_headers_are_found(compiler: str) -> None:
    text = (
        '#include <cuda_bf16.h>\nextern "C" __global__ void k_half(__nv_bfloat16 *x, float *y) {\n'
        "  y[0] = __bfloat162float(x[0]);\n}\n"
    )
    (unit,) = compile_cuda([DeviceSource("k_half", text)], "sm_80")
    assert unit.usage is not None


def test_several_kernels_of_one_text(compiler: str) -> None:
    text = ADD.text + SHARE.text
    a, b = compile_cuda([DeviceSource("k_add", text), DeviceSource("k_share", text)], "sm_80")
    assert a.path == b.path
    assert a.cubin is b.cubin
    assert b.usage is not None
    assert b.usage.shared_bytes == 256


@needs_nvcc
def test_sass_or_what_is_missing() -> None:
    (unit,) = compile_cuda([SHARE], "sm_80")
    if nvlib.find_program("nvdisasm") is None and nvlib.find_program("cuobjdump") is None:
        with pytest.raises(ToolchainError, match="neither cuobjdump nor nvdisasm") as caught:
            sass(unit.cubin)
        assert caught.value.code == "ML501"
        return
    text = sass(unit.cubin, "k_share")
    assert "BAR.SYNC" in text
    assert "FFMA" in text
    with pytest.raises(ToolchainError, match="no kernel k_other"):
        sass(unit.cubin, "k_other")


# ---------------------------------------------------------------- the cache


def test_second_time_compiles_nothing(compiler: str, monkeypatch: pytest.MonkeyPatch) -> None:
    first = compile_cuda([ADD, SHARE], "sm_80")
    for kind in (NvccCompiler, NvrtcCompiler):
        monkeypatch.setattr(kind, "compile", lambda *a, **k: pytest.fail("compiled again"))
    cuda._opened.clear()
    again = compile_cuda([SHARE, ADD, SHARE], "sm_80")
    assert [u.hit for u in again] == [True] * 3
    assert [u.cubin for u in again] == [first[1].cubin, first[0].cubin, first[1].cubin]
    assert [u.usage for u in again] == [first[1].usage, first[0].usage, first[1].usage]


@needs_nvcc
def test_each_kernel_has_its_own_entry(monkeypatch: pytest.MonkeyPatch) -> None:
    compile_cuda([ADD, SHARE], "sm_80")
    trace.recorder().clear()
    a, b = compile_cuda([ADD, TENSOR], "sm_80")
    assert (a.hit, b.hit) == (True, False)
    (event,) = trace.recorder().events("compile")
    assert event.data["kernels"] == ["k_tensor"]
    hits = {e.name: e.data["hit"] for e in trace.recorder().events("cache")}
    assert hits == {"k_add": True, "k_tensor": False}


@needs_nvcc
def test_why_it_was_compiled_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def why(**change: object) -> str | None:
        (unit,) = compile_cuda([ADD], str(change.pop("arch", "sm_80")), **change)  # type: ignore[arg-type]
        return unit.why_miss

    assert why() == "new text"
    assert why() is None
    assert why(arch="sm_90a") == "architecture changed"
    assert why(flags=CudaFlags(fmad=False)) == "flags changed"
    kernels = tmp_path / "kernels"
    shutil.copytree(kernels_dir() / "cuda", kernels / "cuda")
    monkeypatch.setattr(cuda, "kernels_dir", lambda: kernels)
    assert why() is None  # the same headers elsewhere
    with (kernels / "cuda" / "prelude.cuh").open("a") as header:
        header.write("// changed\n")
    assert why() == "headers changed"
    monkeypatch.setattr(NvccCompiler, "description", "nvcc of another day")
    monkeypatch.setattr(NvrtcCompiler, "description", "nvrtc of another day")
    assert why() == "compiler changed"


@needs_nvcc
def test_headers_that_headers_include_count(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    kernels = tmp_path / "kernels"
    shutil.copytree(kernels_dir() / "cuda", kernels / "cuda")
    monkeypatch.setattr(cuda, "kernels_dir", lambda: kernels)
    (kernels / "cuda" / "outer.cuh").write_text('#include "inner.cuh"\n')
    (kernels / "cuda" / "inner.cuh").write_text("#define INNER 3\n")
    source = DeviceSource(
        "k_inner",
        'extern "C" __global__ void k_inner(float *x) { x[0] = INNER; }',
        ("prelude.cuh", "outer.cuh"),
    )
    assert compile_cuda([source], "sm_80")[0].why_miss == "new text"
    assert compile_cuda([source], "sm_80")[0].why_miss is None
    (kernels / "cuda" / "inner.cuh").write_text("#define INNER 44\n")
    assert compile_cuda([source], "sm_80")[0].why_miss == "headers changed"


def test_damaged_entries_are_built_again(compiler: str) -> None:
    (unit,) = compile_cuda([ADD], "sm_80")
    assert b"/maxlab/kernels/k_add" in unit.cubin or b"/maxlab/kernels\0" in unit.cubin
    assert str(Path.cwd()).encode() not in unit.cubin
    data = unit.path.read_bytes()
    unit.path.unlink()
    unit.path.write_bytes(data[: len(data) // 2])
    (again,) = compile_cuda([ADD], "sm_80")
    assert again.why_miss == "corrupt entry rebuilt"
    assert again.cubin == unit.cubin  # no two builds differ


def test_groups() -> None:
    def item(name: str, header: str, size: int) -> cuda._Missing:
        key = Key("t", "p", "f", "c", "sm_80")
        return cuda._Missing("x" * size, (Path(header),), (name,), key, "new text")

    many = [item(f"k{n:02}", "a", 10 + n) for n in range(40)] + [item("other", "b", 5)]
    groups = cuda.group(many, jobs=2)
    assert sorted(name for part in groups for m in part for name in m.names) == sorted(
        name for m in many for name in m.names
    )
    assert all(len(part) <= cuda.KERNELS_PER_UNIT for part in groups)
    assert all(len({m.headers for m in part}) == 1 for part in groups)
    assert len(groups) == 4  # 3 of the first header, 1 of the second
    sizes = [sum(len(m.text) for m in part) for part in groups if len(part) > 1]
    assert max(sizes) - min(sizes) < 50
    assert len(cuda.group(many[:3], jobs=8)) == 3


@needs_nvcc
def test_many_kernels_at_once() -> None:
    sources = [
        DeviceSource(f"k_n{n}", ADD.text.replace("k_add", f"k_n{n}").replace("a[i] +", f"{n} *"))
        for n in range(20)
    ]
    trace.recorder().clear()
    units = compile_cuda(sources, "sm_80", jobs=2)
    assert [u.name for u in units] == [s.name for s in sources]
    assert len(trace.recorder().events("compile")) == 2
    assert all(u.usage is not None for u in units)


@needs_nvcc
def test_sources_are_kept_on_demand() -> None:
    set_config(dataclasses.replace(config.config(), keep_source=True))
    (unit,) = compile_cuda([ADD], "sm_80")
    assert ADD.text in unit.path.with_suffix(".cu").read_text("utf-8")


@needs_nvcc
def test_a_cache_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    set_config(dataclasses.replace(config.config(), cache_dir=tmp_path / "file" / "cache"))
    trace.recorder().clear()
    first = compile_cuda([ADD], "sm_80")[0]
    assert not first.hit
    assert compile_cuda([ADD], "sm_80")[0].hit  # in the private directory
    (event,) = trace.recorder().events("warning")
    assert "cannot be used" in event.data["message"]


# ---------------------------------------------------------------- what goes wrong


def test_errors_have_the_line_of_the_text(compiler: str) -> None:
    with pytest.raises(ToolchainError, match="ML502") as caught:
        compile_cuda([ADD, BROKEN, SHARE], "sm_80")
    error = caught.value
    assert error.what == (
        'the CUDA compiler refused kernel k_broken, line 3: identifier "missing" is undefined'
    )
    assert error.why == (
        '    1 | extern "C" __global__ void k_broken(float *x) {',
        "    2 |   // the line below",
        "    3 |   x[0] = missing;",
        "      |          ^",
        "    4 | }",
    )


def test_errors_found_in_a_header_have_the_line_that_uses_it(compiler: str) -> None:
    text = 'extern "C" __global__ void k_copy(float *x) {\n  mx_cp_async<3>(x, x);\n}\n'
    with pytest.raises(ToolchainError, match=r"k_copy, line 2: static assertion failed") as caught:
        compile_cuda([DeviceSource("k_copy", text)], "sm_80")
    assert "    2 |   mx_cp_async<3>(x, x);" in caught.value.why


def test_errors_of_the_preprocessor(compiler: str) -> None:
    source = dataclasses.replace(ADD, text='\n#include "nowhere.h"\n' + ADD.text)
    with pytest.raises(ToolchainError, match=r"k_add, line 2: .*nowhere\.h"):
        compile_cuda([source], "sm_80")


def test_options_the_compiler_does_not_know(compiler: str) -> None:
    with pytest.raises(ToolchainError, match="refused its options") as caught:
        compile_cuda([ADD], "sm_80", flags=CudaFlags(extra=("--no-such-option",)))
    assert "no-such-option" in caught.value.what
    with pytest.raises(ToolchainError, match="refused its options") as caught:
        compile_cuda([ADD], "sm_999")
    assert "update" in str(caught.value.fix)


@needs_nvcc
def test_good_kernels_beside_a_broken_one_are_kept() -> None:
    with pytest.raises(ToolchainError):
        compile_cuda([ADD, BROKEN], "sm_80", jobs=1)
    assert compile_cuda([ADD], "sm_80")[0].hit


def test_helpers_of_one_name_do_not_clash(compiler: str) -> None:
    sources = []
    for number in (1, 2):
        text = (
            f"MX_INLINE float helper() {{ return {number}; }}\n"
            f'extern "C" __global__ void k_h{number}(float *x) {{ x[0] = helper(); }}\n'
        )
        sources.append(DeviceSource(f"k_h{number}", text))
    units = compile_cuda(sources, "sm_80", jobs=1)
    assert [u.name for u in units] == ["k_h1", "k_h2"]
    assert units[0].cubin is not units[1].cubin


def test_errors_of_the_assembler(compiler: str) -> None:
    text = """extern "C" __global__ void k_asm(float *x) {
  asm volatile("wgmma.fence.sync.aligned;");
}
"""
    with pytest.raises(ToolchainError, match="k_asm") as caught:
        compile_cuda([DeviceSource("k_asm", text)], "sm_80")
    assert "wgmma" in caught.value.what
    compile_cuda([DeviceSource("k_asm", text)], "sm_90a")


def test_a_text_without_its_kernel(compiler: str) -> None:
    with pytest.raises(ToolchainError, match="ML503") as caught:
        compile_cuda([DeviceSource("k_other", ADD.text)], "sm_80")
    assert caught.value.why == ("it defines k_add",)


@pytest.mark.parametrize("arch", ["sm_75", "90a", "sm_9", "compute_90", "sm_80 -O0"])
def test_architectures_that_are_none(arch: str) -> None:
    with pytest.raises(ToolchainError, match="sm_80 or newer"):
        compile_cuda([ADD], arch)


def test_a_missing_header() -> None:
    if nvlib.find_program("nvcc") is None and nvrtc.find_nvrtc() is None:
        pytest.skip("no CUDA compiler")
    with pytest.raises(ToolchainError, match="ML504"):
        compile_cuda([dataclasses.replace(ADD, headers=("nowhere.cuh",))], "sm_80")


def test_no_compiler_says_what_to_install(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(cuda_compiler, "find_nvrtc", lambda: None)
    monkeypatch.setattr(cuda_compiler, "find_program", lambda name: None)
    with pytest.raises(ToolchainError, match="ML501") as caught:
        compile_cuda([ADD], "sm_80")
    assert "pip install nvidia-cuda-nvrtc" in str(caught.value.fix)


@needs_nvcc
def test_a_compiler_that_was_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    killed = cuda_compiler.Compiled(-9, b"", "")
    monkeypatch.setattr(cuda_compiler, "find_nvrtc", lambda: None)
    monkeypatch.setattr(NvccCompiler, "compile", lambda *a, **k: killed)
    with pytest.raises(ToolchainError, match="ML505"):
        compile_cuda([ADD], "sm_80")


# ---------------------------------------------------------------- finding things


def test_cuda_home_comes_first(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("nvcc", "cuobjdump"):
        program = tmp_path / "bin" / name
        program.parent.mkdir(exist_ok=True)
        program.write_text("#!/bin/sh\n")
        program.chmod(0o755)
    (tmp_path / "lib64").mkdir()
    (tmp_path / "lib64" / "libnvrtc.so.13").write_text("")
    (tmp_path / "lib64" / "libnvrtc.so").write_text("")
    monkeypatch.setenv("CUDA_HOME", str(tmp_path))
    monkeypatch.setenv("LD_LIBRARY_PATH", "")
    assert nvlib.find_program("nvcc") == tmp_path / "bin" / "nvcc"
    assert nvlib.find_program("cuobjdump") == tmp_path / "bin" / "cuobjdump"
    assert nvlib.toolkit_roots()[0] == tmp_path
    paths = nvlib.library_paths("nvrtc", (13, 12))
    assert paths[0] == str(tmp_path / "lib64" / "libnvrtc.so.13")
    assert paths[-2:] == ["libnvrtc.so.13", "libnvrtc.so.12"]


def test_wheels_are_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    library = tmp_path / "nvidia" / "cuda_nvrtc" / "lib" / "libnvrtc.so.12"
    library.parent.mkdir(parents=True)
    library.write_text("")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert str(library) in nvlib.library_paths("nvrtc", (13, 12))


def test_a_library_without_the_functions_is_not_taken(tmp_path: Path) -> None:
    assert nvlib.open_library([str(tmp_path / "none.so")], {}) is None
    assert nvlib.open_library(["libc.so.6"], {"no_such_function": "int (*)(void)"}) is None
    libc = nvlib.open_library([str(tmp_path / "none.so"), "libc.so.6"], {"abs": "int (*)(int)"})
    assert libc is not None
    assert libc.abs(-3) == 3
    with pytest.raises(AttributeError, match="labs"):
        _ = libc.labs


def test_usage_of_a_log_with_everything() -> None:
    log = """ptxas info    : 24 bytes gmem, 8 bytes cmem[4]
ptxas info    : Compiling entry function 'k_one' for 'sm_80'
ptxas info    : Function properties for helper
    99 bytes stack frame, 98 bytes spill stores, 97 bytes spill loads
ptxas info    : Function properties for k_one
    40 bytes stack frame, 36 bytes spill stores, 32 bytes spill loads
ptxas info    : Used 255 registers, used 2 barriers, 40 bytes cumulative stack size, \
4096+16 bytes smem, 380 bytes cmem[0], 8 bytes cmem[2]
ptxas info    : Compiling entry function 'k_two' for 'sm_80'
ptxas info    : Function properties for k_two
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 8 registers
"""
    found = parse_usage(log)
    assert found["k_one"] == cuda.ResourceUsage(255, 4112, 40, 36, 32, 2, 388)
    assert found["k_two"] == cuda.ResourceUsage(8)


@needs_nvrtc
def test_nvrtc_is_preferred() -> None:
    assert isinstance(cuda_compiler.find_cuda_compiler(), NvrtcCompiler)
