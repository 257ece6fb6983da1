"""A hint before training on a CPU whose matrix products are slower in bfloat16 than in single precision."""

import time

import torch

SLOWER = 1.2  # ratio of the times from which the hint is given
ROWS, WIDTH = 1024, 256  # of the products that are timed
REPEATS = 5


def precision_hint(precision: str, device: torch.device) -> str:
    """One line if training is in bfloat16 on a CPU that is slower with it, such as an Intel Xeon without AMX, else "".

    It takes about 20 ms.

    Args:
        precision: The trainer's, such as `bf16-mixed`.
        device: The device that trains.
    """
    if device.type != "cpu" or not precision.startswith("bf16"):
        return ""
    ratio = product_seconds(torch.bfloat16) / product_seconds(torch.float32)
    if ratio < SLOWER:
        return ""
    return (
        f"hint: matrix products in bf16 take {ratio:.1f} times as long as in fp32 on this CPU; "
        "--trainer.precision 32-true may train faster"
    )


def product_seconds(dtype: torch.dtype) -> float:
    """The shortest time of a few matrix products."""
    rows, weight = torch.ones(ROWS, WIDTH, dtype=dtype), torch.ones(WIDTH, WIDTH, dtype=dtype)
    seconds = []
    for _ in range(REPEATS + 1):
        start = time.perf_counter()
        rows @ weight
        seconds.append(time.perf_counter() - start)
    return min(seconds[1:])
