"""Ignoring warnings while any of several threads reads files."""

import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

LOCK = threading.Lock()
inside, silence = 0, warnings.catch_warnings()


@contextmanager
def no_warnings() -> Iterator[None]:
    """Ignore warnings in the body, in all threads.

    `warnings.catch_warnings` alone would restore, in one thread, the filters that another one has set.
    """
    global inside, silence
    with LOCK:
        if inside == 0:
            silence = warnings.catch_warnings()
            silence.__enter__()
            warnings.simplefilter("ignore")
        inside += 1
    try:
        yield
    finally:
        with LOCK:
            inside -= 1
            if inside == 0:
                silence.__exit__(None, None, None)
