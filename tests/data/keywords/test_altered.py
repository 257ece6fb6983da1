"""Keywords altered until they are none."""

import numpy
import torch

from vitspeech.data.keywords.items import (
    ALTERED,
    FADE,
    SILENT,
    SPEECH,
    KeywordItems,
    half,
    join_halves,
)

N = 16_000


def word(value, start, stop):
    """A clip whose word has one sample value, so that each sample says which word it is of."""
    clip = numpy.zeros(N, numpy.int16)
    clip[start:stop] = value
    return clip


def test_joined_halves_meet_in_the_middle():
    joined = join_halves(word(100, 4000, 8000), word(-50, 6000, 12_000))
    first, second = joined[: N // 2], joined[N // 2 :]
    assert (first[-1999:-FADE] == 100).all() and not first[:-1999].any()
    assert (second[FADE:3000] == -50).all() and not second[3001:].any()
    assert abs(int(joined[N // 2 - 1])) < 2 and abs(int(joined[N // 2])) < 2  # faded where they meet


def test_a_half_is_at_the_edge_of_the_clip():
    clip = word(100, 4000, 8000)
    first, second = half(clip, keep_first=True), half(clip, keep_first=False)
    assert (first[-1999:] == 100).all() and not first[:-1999].any()
    assert (second[:2001] == 100).all() and not second[2001:].any()


def items():
    clips = torch.from_numpy(numpy.stack([word(100, 4000, 8000), word(50, 6000, 12_000), word(7, 0, 100)]))
    speech = torch.full((3 * N,), 9, dtype=torch.int16)
    made = {ALTERED: 40, SPEECH: 2, SILENT: 3}
    return KeywordItems(clips, torch.tensor([0, 1, 2]), ["a", "b", "c"], made=made, words=2, speech=speech)


def test_made_clips_follow_the_kept_ones_with_their_labels():
    dataset = items()
    assert len(dataset) == 48
    clips, labels, seed = dataset[torch.tensor([2, 0, 43, 45]), 5]
    assert labels.tolist() == [2, 0, 2, 3] and seed == 5
    assert (clips[0] == dataset.inputs[2]).all() and (clips[1] == dataset.inputs[0]).all()
    assert (clips[2] == 9).all() and not clips[3].any()


def test_altered_clips_depend_on_the_seed_alone_and_are_no_keyword():
    dataset, altered = items(), torch.arange(3, 43)
    clips, labels, _ = dataset[altered, 1]
    assert (labels == 2).all() and clips.any(1).all()
    assert (clips == dataset[altered, 1][0]).all() and not (clips == dataset[altered, 2][0]).all()
    for keyword in dataset.inputs[:2]:
        assert not (clips == keyword).all(1).any()
    values = [set(clip.abs().unique().tolist()) for clip in clips]
    assert any({50, 100} <= found for found in values)  # halves of both
    assert not any(7 in found and 100 not in found and 50 not in found for found in values)  # of `unknown` none


def test_hard_cuts_are_where_the_network_finds_a_keyword():
    dataset = items()
    dataset.mined, dataset.speech = 1.0, torch.full((20 * N,), 9, dtype=torch.int16)
    dataset.speech[7 * N : 7 * N + N // 2] = 9000  # what the network takes for a keyword

    def network(waveforms):
        loud = waveforms.unfold(1, 640, 640).abs().mean(2)  # tokens of 40 ms
        return torch.stack((torch.zeros_like(loud), 100 * loud, torch.ones_like(loud), torch.zeros_like(loud)), 2)

    dataset.mine(network)
    assert len(dataset.hard) <= 42 and abs(int(dataset.hard[0]) - (7 * N - N // 4)) <= N // 2
    dataset.hard = dataset.hard[:1]
    clips, labels, _ = dataset[torch.arange(43, 45), 5]
    assert (labels == 2).all() and (clips.max(1).values == 9000).all()
    dataset.mined = 0.0
    assert sum(int(dataset[torch.arange(43, 45), seed][0].max()) == 9000 for seed in range(20)) < 10
