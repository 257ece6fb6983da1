import itertools

import pytest
import torch
from torch import nn
from torch.testing import assert_close

from vitspeech import RecurrentDecoder, SpeechFrontend, SpeechTranscriber
from vitspeech.attention.scores import SCORES
from vitspeech.decoding.autoregressive import beam_search

LENGTHS = torch.tensor([9, 4, 1])
PADDING = torch.arange(9) < LENGTHS[:, None]
VARIANTS = list(itertools.product(("lstm", "gru"), ("additive", "general", "dot"), ("before", "after")))


def decoder(**options):
    torch.manual_seed(0)
    return RecurrentDecoder(14, **options).double().eval()


def tokens_and_source():
    generator = torch.Generator().manual_seed(1)
    return (torch.randn(3, count, 14, dtype=torch.float64, generator=generator) for count in (6, 9))


def test_attention_and_readout_of_bahdanau():
    """Eq. 4-6 and app. A.2.2 of arXiv:1409.0473, written out for one utterance and one source token at a time."""
    ours, (x, source) = decoder(cell="lstm", score="additive"), tokens_and_source()
    w, u, v = ours.score.query_weight[0], ours.score.key_weight[0], ours.score.additive_vector[0]
    cell = nn.LSTMCell(28, 14, dtype=torch.float64)
    cell.load_state_dict({name.removesuffix("_l0"): tensor for name, tensor in ours.layers.state_dict().items()})
    outputs, weights = ours(x, source), ours.cross_weights(x, source)
    for b in range(3):
        h = source[b]
        s = torch.tanh(ours.first_state(h.mean(0)))
        c = torch.zeros_like(s)
        for t in range(6):
            energies = torch.stack([v @ torch.tanh(w.T @ s + u.T @ h_j) for h_j in h])
            alpha = energies.exp() / energies.exp().sum()
            context = sum(alpha_j * h_j for alpha_j, h_j in zip(alpha, h, strict=True))
            s, c = cell(torch.cat((x[b, t], context)), (s, c))
            pairs = ours.output.weight @ torch.cat((s, x[b, t], context)) + ours.output.bias
            assert_close(weights[0, b, 0, t], alpha)
            assert_close(outputs[b, t], torch.stack([max(pairs[2 * i], pairs[2 * i + 1]) for i in range(14)]))


@pytest.mark.parametrize("score", ["general", "dot"])
def test_attention_and_input_feeding_of_luong(score):
    """Eq. 5-8 and sec. 3.3 of arXiv:1508.04025: score(h_t, h_s) is h_t W h_s or h_t h_s."""
    ours, (x, source) = decoder(cell="gru", score=score), tokens_and_source()
    w = ours.score.weight[0] if score == "general" else torch.eye(14, dtype=torch.float64)
    cell = nn.GRUCell(28, 14, dtype=torch.float64)
    cell.load_state_dict({name.removesuffix("_l0"): tensor for name, tensor in ours.layers.state_dict().items()})
    outputs, weights = ours(x, source), ours.cross_weights(x, source)
    for b in range(3):
        state, fed = torch.tanh(ours.first_state(source[b].mean(0))), torch.zeros(14, dtype=torch.float64)
        for t in range(6):
            state = cell(torch.cat((x[b, t], fed)), state)
            energies = torch.stack([state @ w @ h_s for h_s in source[b]])
            alpha = energies.exp() / energies.exp().sum()
            context = (alpha[:, None] * source[b]).sum(0)
            fed = torch.tanh(ours.output.weight @ torch.cat((context, state)))
            assert_close(weights[0, b, 0, t], alpha)
            assert_close(outputs[b, t], fed)


@pytest.mark.parametrize("cell, score, attend", VARIANTS)
def test_steps_equal_the_whole_sequence(cell, score, attend):
    ours, (x, source) = decoder(cell=cell, score=score, attend=attend, depth=2), tokens_and_source()
    whole = ours(x, source, source_padding=PADDING)
    first, cache = ours.step(x[:, :1], ours.start(source, PADDING))
    rest, _ = ours.step(x[:, 1:], cache)
    again, _ = ours.step(x[:, 1:], cache)  # the old state is still usable
    assert_close(torch.cat((first, rest), dim=1), whole)
    assert_close(again, rest)


@pytest.mark.parametrize("cell, score, attend", VARIANTS)
def test_padding_of_the_source_has_no_effect(cell, score, attend):
    ours, (x, source) = decoder(cell=cell, score=score, attend=attend), tokens_and_source()
    weights = ours.cross_weights(x, source, PADDING)
    assert weights.shape == (1, 3, 1, 6, 9)
    assert_close(weights.sum(-1), torch.ones(1, 3, 1, 6, dtype=torch.float64))
    assert not weights[0, :, 0].amax(1)[~PADDING].any()
    for row, length in enumerate(LENGTHS):
        alone = ours(x[row : row + 1], source[row : row + 1, :length])
        assert_close(ours(x, source, source_padding=PADDING)[row], alone[0])


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_selected_rows_go_on_as_they_would_alone(cell):
    ours, (x, source) = decoder(cell=cell, depth=2), tokens_and_source()
    _, cache = ours.step(x[:, :2], ours.start(source, PADDING))
    rows = torch.tensor([2, 0, 0])
    outputs, _ = ours.step(x[rows, 2:], cache.select(rows))
    assert_close(outputs, ours.step(x[:, 2:], cache)[0][rows])


def test_additive_attends_before_the_step_and_others_after_it():
    assert decoder(score="additive").attend_before
    assert decoder(score=SCORES["additive"]).attend_before
    assert not decoder(score="general").attend_before
    assert not decoder(score="additive", attend="after").attend_before


def test_beam_search_runs_on_a_transcriber_with_a_recurrent_decoder():
    torch.manual_seed(0)
    network = SpeechTranscriber(5, SpeechFrontend(16, stride=4), decoder=RecurrentDecoder(16)).eval()
    encoded, _ = network.encode(torch.randn(1, 16_000) / 10)
    sizes = {"start": network.start_unit, "longest": [4], "beam": 3}
    with torch.inference_mode():
        best = beam_search(network.step, network.start(encoded), **sizes)[0][0]
        logits = network.forward_decoder(encoded, None, torch.tensor([best.units]).long()).log_softmax(-1)
    targets = [*best.units, *[5] * best.ended]
    total = sum(float(logits[0, row, unit]) for row, unit in enumerate(targets))
    assert best.log_probability == pytest.approx(total, abs=1e-4)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"cell": "rnn"}, "cell='rnn' is unknown; known: lstm, gru"),
        ({"attend": "during"}, "attend='during' is unknown; known: before, after"),
        ({"score": "cubic"}, "score='cubic' is unknown"),
        ({"depth": 0}, "depth=0 is not a number from 1"),
    ],
)
def test_wrong_arguments_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        RecurrentDecoder(14, **arguments)


def test_a_decoder_of_another_width_is_refused():
    with pytest.raises(ValueError, match="RecurrentDecoder has width=32, but the tokens have width=16"):
        SpeechTranscriber(3, SpeechFrontend(16), decoder=RecurrentDecoder(32))
