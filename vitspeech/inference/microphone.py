"""Audio from the microphone. Needs numpy and sounddevice alone: an exported stream has this file, too."""

import queue
import warnings
from collections.abc import Iterator
from contextlib import ExitStack

import numpy

SHORTEST_GAP_S = 0.01  # below this, two readings of the microphone's clock differ by chance
LATE_S = 2.0  # how much may wait until a warning says so
SILENT_S = 1.0  # after a part is due, until the stream is asked whether it still runs
LONGEST_GAP_S = 10.0  # above this, the clock is wrong or the machine was suspended


def listen(sample_rate_hz: int, part_s: float) -> Iterator[numpy.ndarray]:
    """Record from the default microphone until interrupted (Ctrl-C), in parts of `part_s` seconds: int16 (N,).

    If the system discarded samples because they were not taken in time (an overflow), a warning says so and how often
    it happened, and silence takes their place, so that times in the stream stay right. The length of the silence is
    measured by the microphone's clock and at most LONGEST_GAP_S; nothing is put in where there is no such clock. If
    parts are taken more slowly than they come, they wait in memory; warnings say so from LATE_S on, and each time that
    the delay has doubled.

    Raises:
        OSError: If sounddevice (the extra `live`) or its library PortAudio is not installed, there is no microphone,
            it cannot be started, or it stops.
    """
    try:
        import sounddevice
    except (ImportError, OSError) as error:  # OSError: the package is installed, PortAudio is not
        raise OSError(
            f"a microphone needs the package sounddevice (pip install sounddevice) and PortAudio: {error}"
        ) from None
    parts: queue.Queue[tuple[numpy.ndarray, float, bool]] = queue.Queue()

    def enqueue(samples, frames, time, status) -> None:
        parts.put((samples[:, 0].copy(), time.inputBufferAdcTime, status.input_overflow))

    options = {"samplerate": sample_rate_hz, "channels": 1, "dtype": "int16", "callback": enqueue}
    overflows, overflowed_before, expected_s, late_s = 0, False, None, LATE_S
    with ExitStack() as opened:
        try:
            stream = sounddevice.InputStream(blocksize=round(part_s * sample_rate_hz), **options)
            opened.enter_context(stream)
        except sounddevice.PortAudioError as error:
            raise OSError(f"no microphone: {error}") from None
        while True:
            try:
                samples, start_s, overflowed = parts.get(timeout=part_s + SILENT_S)
            except queue.Empty:
                if stream.active:
                    continue
                raise OSError("the microphone stopped; is it still connected?") from None
            if (waiting_s := parts.qsize() * part_s) >= late_s:
                late_s = 2 * waiting_s
                message = f"{waiting_s:.0f} s behind the microphone: this machine can't keep up"
                warnings.warn(message, RuntimeWarning, stacklevel=2)
            # Samples may be missing before the part or within it; those show in the start of the next part.
            gap_s = start_s - expected_s if expected_s is not None and (overflowed or overflowed_before) else 0.0
            lost = round(min(gap_s, LONGEST_GAP_S) * sample_rate_hz) if gap_s >= SHORTEST_GAP_S else 0
            if overflowed:
                overflows += 1
                message = f"input overflow {overflows} of the microphone: samples were lost"
                warnings.warn(message, RuntimeWarning, stacklevel=2)
            if lost:
                yield numpy.zeros(lost, numpy.int16)
            overflowed_before, expected_s = overflowed, start_s + len(samples) / sample_rate_hz
            yield samples
