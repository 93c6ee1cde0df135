"""``%load_ext acs_jupyter`` from cold against ``import openai``, each in a fresh process with IPython loaded.

Prints the medians and the ratio. Run: ``python -m tests.benchmarks.bench_load``.
"""

from __future__ import annotations

import statistics
import subprocess
import sys

ROUNDS = 9
SHELL = "from IPython.core.interactiveshell import InteractiveShell; shell = InteractiveShell.instance(); import time; "
OURS = SHELL + "began = time.perf_counter(); shell.run_line_magic('load_ext', 'acs_jupyter'); "
THEIRS = SHELL + "began = time.perf_counter(); import openai; "
TELL = "print(time.perf_counter() - began)"


def seconds(code: str) -> float:
    done = subprocess.run([sys.executable, "-c", code + TELL], capture_output=True, text=True, check=True)
    return float(done.stdout.split()[-1])


def main() -> None:
    pairs = [(seconds(OURS), seconds(THEIRS)) for _ in range(ROUNDS + 1)][1:]
    print(
        f"load_ext acs_jupyter: {statistics.median(a for a, _ in pairs) * 1000:.0f} ms (median of {ROUNDS})"
    )
    print(f"import openai:        {statistics.median(b for _, b in pairs) * 1000:.0f} ms")
    print(f"ratio: {statistics.median(a / b for a, b in pairs):.2f} (at most 0.3)")


if __name__ == "__main__":
    main()
