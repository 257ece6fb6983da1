"""The comparison before an export is written refuses a graph that computes something else than the network."""

from types import SimpleNamespace

import numpy
import pytest
import torch

from vitspeech import SpeechClassifier, SpeechFrontend
from vitspeech.errors import InputError
from vitspeech.export.parity import TOLERANCE, compare
from vitspeech.export.speech import compare_stream
from vitspeech.export.stream_step import StreamStep


def test_a_difference_up_to_the_tolerance_passes():
    expected = numpy.array([[1.0, 10.0], [-10.0, 2.0]])
    near, far = (expected + numpy.array([[0, factor * TOLERANCE * 10], [0, 0]]) for factor in (0.99, 1.01))
    assert compare([(expected, near)]) == pytest.approx({"difference": 0.0099, "largest": 10, "rows": 2})
    with pytest.raises(InputError, match=r"differs from the network by 0\.0101 of 10"):
        compare([(expected, near), (expected, far)])


def test_numbers_that_are_not_finite_are_refused():
    expected = numpy.array([[1.0, 2.0]])
    with pytest.raises(InputError, match="differs from the network by nan of 2"):
        compare([(expected, numpy.array([[1.0, numpy.nan]]))])


def test_another_label_is_refused_however_close():
    expected = numpy.array([[1.0, 1.0 + 1e-6, 0.0], [0.0, 1.0, 0.0]])
    with pytest.raises(InputError, match="another label in 1 of 2 rows"):
        compare([(expected, expected[:, [1, 0, 2]] * [[1], [0]] + expected * [[0], [1]])])


def test_a_missing_row_is_refused():
    with pytest.raises(InputError, match=r"returns the shape \(2, 3\), the network \(3, 3\)"):
        compare([(numpy.zeros((3, 3)), numpy.zeros((2, 3)))])


@pytest.mark.parametrize("shift", [0.0, 0.1])
def test_the_steps_of_a_stream_are_compared_with_the_network_on_the_whole_recording(shift):
    torch.manual_seed(0)
    network = SpeechClassifier(3, SpeechFrontend(8, mels=9), {"depth": 1, "heads": 2, "left": 2, "right": 1}).eval()
    step = StreamStep(network).eval()

    def run(_, feeds):
        with torch.inference_mode():
            logits, *others = (part.numpy() for part in step(*map(torch.from_numpy, feeds.values())))
        return [logits + numpy.float32([0, 0, shift * abs(logits).max()]), *others]

    running = SimpleNamespace(run=run, get_outputs=lambda: [SimpleNamespace(shape=[1, 3])])
    recordings = [torch.randn(9000), torch.randn(100)]
    if shift:
        with pytest.raises(InputError, match="differs from the network"):
            compare_stream(running, step, recordings)
    else:
        assert compare_stream(running, step, recordings)["rows"] > 3
