"""Peak memory of one forward and backward, beyond the inputs, in a separate process.

`python -m benchmarks.memory '{"name": "ours", "tokens": 4096}'` prints it as JSON.
"""

import ctypes
import gc
import json
import os
import resource
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch

from benchmarks.measure import Call, NotRunError, reason, synchronize
from benchmarks.variants import Case, prepare, small

STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
MIB = 2**20


def extra_mib(call: Call, device: str = "cpu") -> float:
    """Peak memory of one run of `call` in MiB beyond the memory held before, results included.

    On CUDA it is measured by the allocator. On Linux the high-water mark of the kernel is reset first; elsewhere the
    mark of the process is read before and after, which detects only growth beyond all earlier peaks.
    """
    gc.collect()
    if torch.device(device).type == "cuda":
        synchronize(device)
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        result = call()
        synchronize(device)
        grown = torch.cuda.max_memory_allocated(device) - before
    else:
        before = settled()
        result = call()
        grown = high_water() - before
    del result
    return max(grown, 0) / MIB


def settled() -> int:
    """Bytes held now, after returning freed memory to the kernel and resetting the high-water mark."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
        RESET.write_text("5")
    except (OSError, AttributeError):  # not glibc, not Linux, or not allowed
        return high_water()
    return status_bytes("VmRSS")


def high_water() -> int:
    """The peak memory of this process in bytes."""
    if STATUS.exists():
        return status_bytes("VmHWM")
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else 1024 * peak


def status_bytes(name: str) -> int:
    """A size from the kernel's status file (in kB there), in bytes."""
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name + ":"))
    return 1024 * int(line.split()[1])


def in_fresh_process(name: str, case: Case) -> dict[str, Any]:
    """`extra_mib` of a variant measured in a new process, or `not_run` with the reason."""
    command = [sys.executable, "-m", "benchmarks.memory", json.dumps({"name": name, **asdict(case)})]
    process = subprocess.run(command, capture_output=True, text=True, env=with_scripts())
    if process.returncode:
        message = (process.stderr.strip().splitlines() or ["no message; out of memory?"])[-1]
        return {"not_run": f"failed: exit status {process.returncode}, {message[:120]}"}
    return json.loads(process.stdout.splitlines()[-1])


def with_scripts() -> dict[str, str]:
    """The environment of a process that can import this package."""
    folders = [str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH")]
    return os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, folders))}


def measured(name: str, case: Case) -> dict[str, Any]:
    """The output of the new process: a short call loads the kernels, then the real one is measured."""
    try:
        prepare(name, small(case)).forward_backward()
        return {"extra_mib": extra_mib(prepare(name, case).forward_backward, case.device)}
    except (NotRunError, RuntimeError) as error:
        return {"not_run": reason(error)}


if __name__ == "__main__":
    arguments = json.loads(sys.argv[1])
    print(json.dumps(measured(arguments.pop("name"), Case(**arguments))))
