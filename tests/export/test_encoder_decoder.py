"""The graphs of encoder-decoders: single steps against teacher forcing, for every kind of decoder; a refusal."""

import itertools

import pytest
import torch

from vitspeech import RecurrentDecoder, Seq2Seq, SpeechFrontend, SpeechTranscriber
from vitspeech.checkpoint.model import Model
from vitspeech.errors import InputError
from vitspeech.export.encoder_decoder import SourceGraph, StepGraph
from vitspeech.export.folder import spec_of

SCORES = ("scaled_dot", "dot", "general", "additive", "cosine")
POSITIONS = ("rotary", "relative", "sinusoidal", "learned", None)


def seq2seq(seed, score="scaled_dot", positions="rotary", normalizer="softmax", left=None, **options):
    """A network for seven units whose parameters, those of the scores included, are random."""
    torch.manual_seed(seed)
    settings = {"depth": 2, "heads": 2, "score": score, "normalizer": normalizer, "mlp_ratio": 2.0}
    network = Seq2Seq(7, 5, 12, settings, decoder={**settings, "left": left}, positions=positions, **options)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return network.eval()


def compare(network, sequences=2, units=9):
    """The largest difference of the steps' log-probabilities from those of teacher forcing, and the largest one."""
    inputs, units = torch.randint(5, (1, 11)), torch.randint(7, (sequences, units))
    with torch.inference_mode():
        source, cache = (part.repeat(1, sequences, 1, 1, 1) for part in SourceGraph(network)(inputs)[-2:])
        encoded, _ = network.encode(inputs)
        expected = network.forward_decoder(encoded.expand(sequences, -1, -1), None, units).log_softmax(-1)
        step, rows = StepGraph(network), []
        for column in range(units.shape[1] + 1):
            last = units[:, column - 1] if column else torch.full((sequences,), network.start_unit)
            row, cache = step(last, source, cache)
            rows.append(row)
    return abs(torch.stack(rows, 1) - expected).max().item(), abs(expected).max().item()


@pytest.mark.parametrize("score", SCORES)
def test_steps_equal_teacher_forcing_for_every_decoder(score):
    for seed, (positions, normalizer, left) in enumerate(itertools.product(POSITIONS, ("softmax", "relu"), (None, 3))):
        difference, largest = compare(seq2seq(seed, score, positions, normalizer, left))
        assert difference <= 1e-5 * largest, (positions, normalizer, left)


def test_a_recurrent_decoder_is_refused():
    network = SpeechTranscriber(3, SpeechFrontend(8, mels=8), {"depth": 1, "heads": 2}, decoder=RecurrentDecoder(8))
    model = Model(network.eval(), ["a", "b", "c"], {"sample_rate_hz": 16_000, "units": "words"}, {}, {})
    with pytest.raises(InputError, match=r"^SpeechTranscriber can't be exported: its decoder RecurrentDecoder is not"):
        spec_of(model)
