"""Recording without a microphone: a fake `sounddevice` that calls back as the real one does."""

import itertools
import sys
import types
import warnings

import numpy
import pytest

from vitspeech.inference.microphone import listen


class PortAudioError(Exception):
    """The exception of sounddevice."""


class FakeStream:
    """Calls back for each of `starts_s` on entry, with one reused buffer. These are the times of the buffers' first
    samples; `overflows` says whether samples before them were discarded."""

    log = []
    starts_s = (7.0, 7.1, 7.2)
    overflows = (False, False, False)

    def __init__(self, blocksize, samplerate, channels, dtype, callback):
        self.log.append((blocksize, samplerate, channels, dtype))
        self.blocksize, self.callback = blocksize, callback

    def __enter__(self):
        buffer = numpy.zeros((self.blocksize, 1), numpy.int16)
        for number, start_s in enumerate(self.starts_s):
            buffer[:] = number + 1
            time = types.SimpleNamespace(inputBufferAdcTime=start_s)
            status = types.SimpleNamespace(input_overflow=self.overflows[number])
            self.callback(buffer, self.blocksize, time, status)

    def __exit__(self, *_):
        self.log.append("closed")


@pytest.fixture
def microphone(monkeypatch):
    """A class whose `starts_s` and `overflows` may be set."""
    fake = types.SimpleNamespace(InputStream=FakeStream, PortAudioError=PortAudioError)
    monkeypatch.setitem(sys.modules, "sounddevice", fake)
    for name in ("log", "starts_s", "overflows"):
        monkeypatch.setattr(FakeStream, name, getattr(FakeStream, name)[:])  # a copy, and the original afterwards
    return FakeStream


def test_parts_are_yielded_in_order_and_the_microphone_is_closed(microphone):
    parts = listen(16_000, 0.1)
    samples = [next(parts) for _ in range(3)]
    assert [numpy.unique(part).tolist() for part in samples] == [[1], [2], [3]]
    assert all(part.shape == (1600,) and part.dtype == numpy.int16 for part in samples)
    parts.close()
    assert microphone.log == [(1600, 16_000, 1, "int16"), "closed"]


def lengths_and_warnings(parts, count):
    """The length of each part, negative for silence put in, and the warnings up to then."""
    found = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for part in itertools.islice(parts, count):
            assert part.dtype == numpy.int16
            found.append(len(part) if part.any() else -len(part))
    assert all(warning.category is RuntimeWarning for warning in caught)
    return found, [str(warning.message) for warning in caught]


def overflow(number):
    return f"input overflow {number} of the microphone: samples were lost"


def test_overflows_are_counted_in_warnings_and_silence_keeps_the_times(microphone):
    microphone.starts_s, microphone.overflows = (7.0, 7.35, 7.5), (False, True, True)
    found, messages = lengths_and_warnings(listen(16_000, 0.1), 5)
    assert found == [1600, -4000, 1600, -800, 1600] and messages == [overflow(1), overflow(2)]


@pytest.mark.parametrize("starts_s", [(0.0, 0.0, 0.0), (7.0, 7.1, 7.2), (7.0, 7.101, 7.199)])
def test_without_a_clock_or_a_gap_no_silence_is_put_in(microphone, starts_s):
    microphone.starts_s, microphone.overflows = starts_s, (True, True, False)
    found, messages = lengths_and_warnings(listen(16_000, 0.1), 3)
    assert found == [1600] * 3 and messages == [overflow(1), overflow(2)]


def test_a_wrong_clock_does_not_fill_the_memory(microphone):
    microphone.starts_s, microphone.overflows = (7.0, 1e12, 1e12 + 0.1), (False, True, False)
    assert lengths_and_warnings(listen(16_000, 0.1), 3)[0] == [1600, -160_000, 1600]


def test_a_machine_that_cannot_keep_up_is_told_so(microphone):
    starts_s = [7 + 0.1 * number for number in range(100)]
    microphone.starts_s, microphone.overflows = starts_s, (False,) * 100  # all are there at once
    found, messages = lengths_and_warnings(listen(16_000, 0.1), 100)
    assert found == [1600] * 100
    assert messages == ["10 s behind the microphone: this machine can't keep up"]


def test_a_microphone_that_cannot_be_started_is_reported_in_one_line(microphone, monkeypatch):
    def fail(self):
        raise PortAudioError("Error starting stream: Device unavailable")

    monkeypatch.setattr(microphone, "__enter__", fail)
    with pytest.raises(OSError, match="no microphone: Error starting stream: Device unavailable"):
        next(listen(16_000, 0.1))


def test_a_missing_microphone_is_reported_in_one_line(monkeypatch):
    def fail(**_):
        raise PortAudioError("Error querying device -1")

    monkeypatch.setitem(
        sys.modules, "sounddevice", types.SimpleNamespace(InputStream=fail, PortAudioError=PortAudioError)
    )
    with pytest.raises(OSError, match="no microphone: Error querying device -1"):
        next(listen(16_000, 0.1))


def test_a_microphone_that_stops_is_reported(microphone, monkeypatch):
    monkeypatch.setattr("vitspeech.inference.microphone.SILENT_S", 0.01)
    asked = iter((True, True, False))
    monkeypatch.setattr(microphone, "active", property(lambda self: next(asked)), raising=False)
    parts = listen(16_000, 0.01)
    for _ in microphone.starts_s:
        next(parts)
    with pytest.raises(OSError, match="the microphone stopped"):
        next(parts)
    assert microphone.log[-1] == "closed" and not list(asked)
