"""Batches of utterances: padding of sounds, units and spans."""

import torch

from vitspeech.data.utterances.batch import collate
from vitspeech.data.utterances.manifest import Utterance

UTTERANCES = [
    Utterance("u", ["a"], 7001, ["a"], [[1201, 2903]], [5003], ["fan", 0], 20.0),
    Utterance(
        "v", [*"bac"], 9001, [*"bac"], [[701, 4201], [0, 401], [1009, 2003]], [1009, 6007, 6499], ["fan", 0], 20.0
    ),
]
SOUNDS = [torch.arange(1, length + 1, dtype=torch.int16) for length in (7001, 9001)]
UNITS = [[5, 0, 7, 7, 2], [3]]


def test_a_batch_is_padded_at_the_ends():
    speech = collate(SOUNDS, UNITS, [utterance.spans for utterance in UTTERANCES])
    assert speech.waveforms.dtype == torch.int16 and speech.waveforms.shape == (2, 9001)
    assert torch.equal(speech.waveforms[0, :7001], SOUNDS[0])
    assert torch.equal(speech.waveforms[1], SOUNDS[1])
    assert not speech.waveforms[0, 7001:].any()
    assert speech.lengths.tolist() == [7001, 9001]
    assert speech.units.tolist() == [[5, 0, 7, 7, 2], [3, -1, -1, -1, -1]]
    assert speech.spans.tolist() == [[[5003, 6705], [0, 0], [0, 0]], [[1009, 4509], [6007, 6408], [6499, 7493]]]
    assert {part.dtype for part in speech[1:]} == {torch.int64}


def test_spans_of_utterances_without_times_have_no_words():
    speech = collate(SOUNDS, UNITS)
    assert speech.spans.shape == (2, 0, 2) and speech.spans.dtype == torch.int64
