"""Builds the C++ kernel beside the package. Everything else about the project is in pyproject.toml.

The kernel is one shared library with a C ABI: recurrence.cpp, gated.cpp and inference.cpp once per instruction set,
dispatch.cpp to pick one at run time. It includes no header of torch or Python, so one build serves every version of both. Where
no compiler is found the package is installed without it and computes in torch operations.
"""

import platform
import sys
from pathlib import Path

from setuptools import Extension, setup
from setuptools.command.build_ext import build_ext

KERNEL = Path("src/steadygrad/kernel")
FLAGS = ["-std=c++17", "-O3", "-fPIC", "-fvisibility=hidden", "-ffp-contract=fast"]
FLAGS += ["-fno-math-errno", "-fno-trapping-math"]
SOURCES = ["recurrence.cpp", "gated.cpp", "inference.cpp"]
BASELINE = ("baseline", 16, 6, [])
X86 = [
    BASELINE,
    ("avx2", 32, 6, ["-mavx2", "-mfma"]),
    ("avx512", 64, 12, ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mfma", "-mprefer-vector-width=512"]),
]


class BuildKernel(build_ext):
    def build_extension(self, ext: Extension) -> None:
        try:
            self._build_kernel(ext)
        except Exception as reason:  # whatever a compiler can die of, the package works without the kernel
            print(
                f"steadygrad: the C++ kernel was not built ({reason}); the layer will use torch operations",
                file=sys.stderr,
            )

    def _build_kernel(self, ext: Extension) -> None:
        x86 = platform.machine().lower() in ("x86_64", "amd64")
        objects: list[str] = []
        for isa, vector_bytes, rows, flags in X86 if x86 else [BASELINE]:
            macros = [("SG_ISA", isa), ("SG_VECTOR_BYTES", str(vector_bytes)), ("SG_ROWS", str(rows))]
            for source in SOURCES:
                objects += self._compile(source, isa, macros, flags)
        objects += self._compile("dispatch.cpp", "dispatch", [("SG_WITH_X86", "1")] if x86 else [], [])
        target = Path(self.get_ext_fullpath(ext.name))
        target.parent.mkdir(parents=True, exist_ok=True)
        self.compiler.link_shared_object(objects, str(target), extra_postargs=["-pthread"], target_lang="c++")

    def _compile(self, source: str, name: str, macros: list[tuple[str, str]], flags: list[str]) -> list[str]:
        folder = Path(self.build_temp) / name
        return self.compiler.compile(
            [str(KERNEL / source)],
            output_dir=str(folder),
            macros=macros,
            extra_postargs=FLAGS + flags,
            depends=ext_headers(),
        )

    def get_ext_filename(self, fullname: str) -> str:
        # No interpreter's tag: the library is not a Python module.
        suffix = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
        return str(Path(*fullname.split("."))) + suffix


def ext_headers() -> list[str]:
    return [str(path) for path in KERNEL.glob("*.hpp")]


setup(
    ext_modules=[Extension("steadygrad.kernel.recurrence", [str(KERNEL / "recurrence.cpp")], depends=ext_headers())],
    cmdclass={"build_ext": BuildKernel},
)
