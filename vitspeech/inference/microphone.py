"""Audio from the microphone."""

import queue
from collections.abc import Iterator

import torch
from torch import Tensor


def listen(sample_rate_hz: int, part_s: float) -> Iterator[Tensor]:
    """Record from the default microphone until interrupted (Ctrl-C), in parts of `part_s` seconds: int16 (N,).

    Raises:
        OSError: If `sounddevice` (the extra `live`) or its library PortAudio is not installed, or there is no
            microphone.
    """
    try:
        import sounddevice
    except (ImportError, OSError) as error:  # OSError: the package is installed, PortAudio is not
        raise OSError(
            f"a microphone needs the extra `live` (pip install 'vitspeech[live]') and PortAudio: {error}"
        ) from None
    parts: queue.Queue[Tensor] = queue.Queue()

    def enqueue(samples, frames, time, status) -> None:
        parts.put(torch.from_numpy(samples[:, 0].copy()))

    options = {"samplerate": sample_rate_hz, "channels": 1, "dtype": "int16", "callback": enqueue}
    try:
        microphone = sounddevice.InputStream(blocksize=round(part_s * sample_rate_hz), **options)
    except sounddevice.PortAudioError as error:
        raise OSError(f"no microphone: {error}") from None
    with microphone:
        while True:
            yield parts.get()
