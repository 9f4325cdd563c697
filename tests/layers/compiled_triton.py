"""Compiles the Triton kernels for NVIDIA's sm_80 and sm_90, which needs no GPU, and says what each spills out of its registers.

python tests/layers/compiled_triton.py fp32
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from steadygrad.recurrence import triton as ours

POINTERS = {
    "forward_kernel": ["projected", "output", "last", "h0", "weight"],
    "backward_kernel": ["values", "grad_output", "grad_last", "deltas", "arrived", "h0_error", "weight"],
}
PLAIN = {
    "SIGMA": "tanh",
    "LEAK": 0.0,
    "CLIP": 0.1,
    "REVERSE": False,
    "AFTER": False,
    "activation": None,
    "errors": None,
}
LEAKY = {"SIGMA": "sigmoid", "LEAK": 0.3, "CLIP": None, "REVERSE": True, "AFTER": True}
NUMBER_BYTES = {"fp32": 4, "fp64": 8}


def compiled(name: str, dtype: str, options: dict[str, Any], architecture: int) -> str:
    """The kernel's assembly."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    from steadygrad.recurrence import triton_kernels

    kernel: Any = getattr(triton_kernels, name)
    units = ours.MOST_UNITS
    constants = {**options, "ROWS": 1, "UNITS": units}
    signature: dict[str, str] = {}
    for parameter in kernel.params:
        if parameter.name in constants:
            signature[parameter.name] = "constexpr"
        elif parameter.name == "lengths":
            signature[parameter.name] = "*i64"
        elif parameter.name in (*POINTERS[name], "activation", "errors"):
            signature[parameter.name] = f"*{dtype}"
        else:
            signature[parameter.name] = "i32"
    given = {(at,): constants[each] for at, each in enumerate(signature) if each in constants}
    warps = ours.warps(units, NUMBER_BYTES[dtype])
    found: Any = triton.compile(
        ASTSource(kernel, signature, given), target=GPUTarget("cuda", architecture, 32), options={"num_warps": warps}
    )
    return found.asm["ptx"]


def spills(assembly: str) -> str:
    """What ptxas, which comes with Triton, says of it."""
    import triton

    ptxas = Path(triton.__file__).parent / "backends" / "nvidia" / "bin" / "ptxas"
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "kernel.ptx"
        source.write_text(assembly)
        target = assembly.split(".target ")[1].split()[0].rstrip(",")  # sm_90a for sm_90
        command = [str(ptxas), "-v", f"--gpu-name={target}", str(source), "-o", str(source.with_suffix(".o"))]
        said = subprocess.run(command, capture_output=True, text=True, check=True).stderr
    return next(line.strip() for line in said.splitlines() if "spill" in line)


def main() -> None:
    dtype = sys.argv[1]
    for name in POINTERS:
        for options, architecture in ((PLAIN, 80), (LEAKY, 90)):
            print(name, dtype, f"sm_{architecture}", spills(compiled(name, dtype, options, architecture)))


if __name__ == "__main__":
    main()
