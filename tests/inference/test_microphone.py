"""Live sound, without a microphone: a stand-in for `sounddevice` that calls back as it does."""

import sys
import types

import numpy
import pytest
import torch

from vitspeech.inference.microphone import listen


class PortAudioError(Exception):
    """What sounddevice raises."""


class FakeStream:
    """Calls back three times as soon as it is entered, with buffers that are used again."""

    made = []

    def __init__(self, blocksize, samplerate, channels, dtype, callback):
        self.made.append((blocksize, samplerate, channels, dtype))
        self.blocksize, self.callback = blocksize, callback

    def __enter__(self):
        buffer = numpy.zeros((self.blocksize, 1), numpy.int16)
        for number in range(3):
            buffer[:] = number
            self.callback(buffer, self.blocksize, None, None)

    def __exit__(self, *_):
        self.made.append("closed")


def test_parts_come_in_order_and_the_microphone_is_closed(monkeypatch):
    fake = types.SimpleNamespace(InputStream=FakeStream, PortAudioError=PortAudioError)
    monkeypatch.setitem(sys.modules, "sounddevice", fake)
    monkeypatch.setattr(FakeStream, "made", [])
    parts = listen(16_000, 0.1)
    heard = [next(parts) for _ in range(3)]
    assert [part.unique().tolist() for part in heard] == [[0], [1], [2]]
    assert all(part.shape == (1600,) and part.dtype == torch.int16 for part in heard)
    parts.close()
    assert FakeStream.made == [(1600, 16_000, 1, "int16"), "closed"]


def test_without_a_microphone_there_is_one_line_that_says_so(monkeypatch):
    def none(**_):
        raise PortAudioError("Error querying device -1")

    monkeypatch.setitem(
        sys.modules, "sounddevice", types.SimpleNamespace(InputStream=none, PortAudioError=PortAudioError)
    )
    with pytest.raises(OSError, match="no microphone: Error querying device -1"):
        next(listen(16_000, 0.1))


def test_without_the_extra_it_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    with pytest.raises(OSError, match=r"vitspeech\[live\]"):
        next(listen(16_000, 0.1))
