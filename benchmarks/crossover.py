"""Where the C++ kernel stops being quicker than torch's own matrix products: what `auto` goes by (rnn/recurrence.py).

python benchmarks/crossover.py
"""

from __future__ import annotations

from clock import quickest
from peers import Setting, Size, steady


def main() -> None:
    print(f"{'hidden':>8}{'batch':>8}{'native ms':>12}{'torch ms':>12}{'torch / native':>16}")
    for hidden in (32, 64, 128, 256, 512, 768, 1024, 1536, 2048):
        for batch in (1, 8, 32, 128):
            setting = Setting.make(Size(20, batch, hidden, 32, "all"))
            times = quickest({name: steady(setting, backend=name) for name in ("native", "torch")}, 0.7)
            ratio = times["torch"] / times["native"]
            print(f"{hidden:8}{batch:8}{times['native']:12.3f}{times['torch']:12.3f}{ratio:16.2f}", flush=True)


if __name__ == "__main__":
    main()
