"""The peak memory of one training step, beyond what the process held before it: the kernel's own buffers included.

Each measurement is a process of its own. Linux keeps the peak of the resident memory and lets it be reset.
"""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from pathlib import Path

from peers import LARGE, SMALL, Setting, Size, steady, torch_rnn

_PEERS = {"torch.nn.RNN": torch_rnn, "steadygrad with Ω": steady}


def peak_bytes(peer: str, size: Size) -> int:
    """Bytes at the peak of a step, the least of three processes."""
    command = [sys.executable, __file__, peer, "small" if size == SMALL else "large"]
    return min(int(subprocess.run(command, check=True, capture_output=True, text=True).stdout) for _ in range(3))


def _measure(peer: str, size: Size) -> int:
    setting = Setting.make(size)
    # A step of one sequence loads all code; what the real step needs is then not yet in the process.
    tiny = Setting.make(Size(2, 1, size.hidden, size.inputs, size.loss))
    for _ in range(2):
        _PEERS[peer](tiny)()
    step = _PEERS[peer](setting)
    gc.collect()
    ctypes.CDLL("libc.so.6").malloc_trim(0)
    before = status("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # resets the peak
    step()
    return status("VmHWM") - before


def status(field: str) -> int:
    line = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field))
    return 1024 * int(line.split()[1])


if __name__ == "__main__":
    print(_measure(sys.argv[1], SMALL if sys.argv[2] == "small" else LARGE))
