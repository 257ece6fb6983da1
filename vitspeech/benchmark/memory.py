"""Peak memory of one forward and backward, beyond the inputs, in a process of its own.

`python -m vitspeech.benchmark.memory '{"name": "ours", "tokens": 4096}'` prints it as JSON.
"""

import ctypes
import gc
import json
import resource
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from vitspeech.benchmark.measure import Call, NotRunError, reason, synchronise
from vitspeech.benchmark.variants import Case, prepare, small

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
MIB = 2**20


def extra_mib(call: Call, device: str = "cpu") -> float:
    """By how many MiB one run of `call` raises the peak over what was held before, its results included.

    On CUDA it is the allocator's count. On Linux the kernel's high-water mark is set back first; elsewhere the mark of
    the whole process is read before and after, which sees only what rises above all that went before.
    """
    gc.collect()
    if torch.device(device).type == "cuda":
        synchronise(device)
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        result = call()
        synchronise(device)
        grown = torch.cuda.max_memory_allocated() - before
    else:
        before = settled()
        result = call()
        grown = high_water() - before
    del result
    return max(grown, 0) / MIB


def settled() -> int:
    """Bytes held now, after freed memory went back to the kernel and the high-water mark was set to this."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        RESET.write_text("5")
    except (OSError, AttributeError):  # not glibc, not Linux, or not allowed
        return high_water()
    return status_bytes("VmRSS")


def high_water() -> int:
    """The most bytes that this process has held at once."""
    if STATUS.exists():
        return status_bytes("VmHWM")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def status_bytes(name: str) -> int:
    """A size that the kernel gives in kB."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name + ":"))
    return 1024 * int(line.split()[1])


def in_fresh_process(name: str, case: Case) -> dict[str, Any]:
    """`extra_mib` of that variant, measured by a new process, or `not_run` with the reason."""
    command = [sys.executable, "-m", "vitspeech.benchmark.memory", json.dumps({"name": name, **asdict(case)})]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        said = (done.stderr.strip().splitlines() or ["nothing said; out of memory?"])[-1]
        return {"not_run": f"failed: exit status {done.returncode}, {said[:120]}"}
    return json.loads(done.stdout.splitlines()[-1])


def measured(name: str, case: Case) -> dict[str, Any]:
    """What the fresh process prints: a short call loads the kernels, the next one is measured."""
    try:
        prepare(name, small(case)).forward_backward()
        return {"extra_mib": extra_mib(prepare(name, case).forward_backward, case.device)}
    except (NotRunError, RuntimeError) as error:
        return {"not_run": reason(error)}


if __name__ == "__main__":
    wanted = json.loads(sys.argv[1])
    print(json.dumps(measured(wanted.pop("name"), Case(**wanted))))
