"""Recording without a microphone: a fake `sounddevice` that calls back as the real one does."""

import sys
import types

import numpy
import pytest
import torch

from vitspeech.inference.microphone import listen


class PortAudioError(Exception):
    """The exception of sounddevice."""


class FakeStream:
    """Calls back three times on entry, with one reused buffer."""

    log = []

    def __init__(self, blocksize, samplerate, channels, dtype, callback):
        self.log.append((blocksize, samplerate, channels, dtype))
        self.blocksize, self.callback = blocksize, callback

    def __enter__(self):
        buffer = numpy.zeros((self.blocksize, 1), numpy.int16)
        for number in range(3):
            buffer[:] = number
            self.callback(buffer, self.blocksize, None, None)

    def __exit__(self, *_):
        self.log.append("closed")


def test_parts_are_yielded_in_order_and_the_microphone_is_closed(monkeypatch):
    fake = types.SimpleNamespace(InputStream=FakeStream, PortAudioError=PortAudioError)
    monkeypatch.setitem(sys.modules, "sounddevice", fake)
    monkeypatch.setattr(FakeStream, "log", [])
    parts = listen(16_000, 0.1)
    samples = [next(parts) for _ in range(3)]
    assert [part.unique().tolist() for part in samples] == [[0], [1], [2]]
    assert all(part.shape == (1600,) and part.dtype == torch.int16 for part in samples)
    parts.close()
    assert FakeStream.log == [(1600, 16_000, 1, "int16"), "closed"]


def test_a_missing_microphone_is_reported_in_one_line(monkeypatch):
    def fail(**_):
        raise PortAudioError("Error querying device -1")

    monkeypatch.setitem(
        sys.modules, "sounddevice", types.SimpleNamespace(InputStream=fail, PortAudioError=PortAudioError)
    )
    with pytest.raises(OSError, match="no microphone: Error querying device -1"):
        next(listen(16_000, 0.1))


def test_a_missing_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(OSError, match=r"vitspeech\[live\]"):
        next(listen(16_000, 0.1))
