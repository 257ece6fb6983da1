"""Masks over frames: what they hide, how much, when, and for whom.

Shapes: B = 97 utterances, F = 61 frames, M = 23 mel bins.
"""

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


def test_utterances_of_a_batch_are_masked_each_in_its_own_way():
    where = hidden(SpecAugment(2, 20, 0, 0), frames()).all(2)
    assert len(where.unique(dim=0)) > 80
    bins = hidden(SpecAugment(0, 0, 2, 10), frames()).all(1)
    assert len(bins.unique(dim=0)) > 80


def test_masks_depend_only_on_torchs_seed():
    masks = SpecAugment()
    assert torch.equal(hidden(masks, frames(), seed=1), hidden(masks, frames(seed=2), seed=1))
    assert not torch.equal(hidden(masks, frames(), seed=1), hidden(masks, frames(), seed=2))


def test_an_utterance_shorter_than_a_mask_keeps_its_shape():
    assert SpecAugment(2, 20, 2, 10)(frames()[:, :3, :2]).shape == (97, 3, 2)
    assert SpecAugment()(frames()[:, :0]).shape == (97, 0, 23)
