"""Masks over frames: what they hide, how much, when, and for whom.

Shapes: B = 97 utterances, F = 61 frames, M = 23 mel bins.
"""

import pytest
import torch

from vitspeech.frontends import SpecAugment


def frames(batch=97, seed=0):
    """Log-mel frames without a zero among them, so that what is 0 was hidden."""
    drawn = torch.randn(batch, 61, 23, generator=torch.Generator().manual_seed(seed))
    return drawn + drawn.sign()


def hidden(masks, given, seed=0):
    """Where the masks hid something, (B, F, M); what they left is as it was."""
    torch.manual_seed(seed)
    masked = masks(given)
    assert masked.shape == given.shape and masked.dtype == given.dtype
    assert torch.equal(masked, torch.where(masked == 0, 0.0, given))
    return masked == 0


def widths(stretches):
    """Widths of each row's stretch, of which there must be at most one: bool (B, L) -> list."""
    begins = stretches & ~stretches.roll(1, 1)
    begins[:, 0] = stretches[:, 0]
    assert begins.sum(1).max() <= 1
    return stretches.sum(1).tolist()


def test_evaluation_changes_nothing():
    given = frames()
    assert torch.equal(SpecAugment().eval()(given), given)
    assert hidden(SpecAugment(), given).any()


def test_both_hide_frames_and_bins_and_nothing_else():
    where = hidden(SpecAugment(1, 13, 1, 7), frames())
    time, mel = where.all(2), where.all(1)
    assert 6 < max(widths(time)) <= 13 and 3 < max(widths(mel)) <= 7
    assert torch.equal(where, time[:, :, None] | mel[:, None, :])


def test_several_masks_hide_up_to_so_many_stretches():
    time = hidden(SpecAugment(3, 7, 0, 0), frames()).all(2)
    begins = time & ~torch.nn.functional.pad(time, (1, 0))[:, :-1]
    assert begins.sum(1).max() == 3
    assert 7 < time.sum(1).max() <= 21


@pytest.mark.parametrize("masks, axis, bound", [(SpecAugment(1, 5, 0, 0), 2, 5), (SpecAugment(0, 0, 1, 3), 1, 3)])
def test_a_mask_is_of_every_width_below_its_bound_and_of_no_other(masks, axis, bound):
    found = {width for seed in range(5) for width in widths(hidden(masks, frames(), seed).all(axis))}
    assert found == set(range(bound))


def test_every_frame_and_every_bin_but_the_last_is_hidden_at_times():
    where = hidden(SpecAugment(), frames(batch=499))
    # torchaudio rounds a mask's place and width down both, so that none reaches the last frame or bin.
    assert where.all(2).any(0)[:-1].all() and where.all(1).any(0)[:-1].all()


def test_utterances_of_a_batch_are_masked_each_in_its_own_way():
    where = hidden(SpecAugment(2, 20, 0, 0), frames()).all(2)
    assert len(where.unique(dim=0)) > 80
    bins = hidden(SpecAugment(0, 0, 2, 10), frames()).all(1)
    assert len(bins.unique(dim=0)) > 80


@pytest.mark.parametrize("numbers", [(0, 20, 0, 10), (2, 0, 2, 0)])
def test_no_masks_and_masks_of_no_width_hide_nothing(numbers):
    assert not hidden(SpecAugment(*numbers), frames()).any()


def test_masks_depend_only_on_torchs_seed():
    masks = SpecAugment()
    assert torch.equal(hidden(masks, frames(), seed=1), hidden(masks, frames(seed=2), seed=1))
    assert not torch.equal(hidden(masks, frames(), seed=1), hidden(masks, frames(), seed=2))


def test_an_utterance_shorter_than_a_mask_keeps_its_shape():
    assert SpecAugment(2, 20, 2, 10)(frames()[:, :3, :2]).shape == (97, 3, 2)
    assert SpecAugment()(frames()[:, :0]).shape == (97, 0, 23)
