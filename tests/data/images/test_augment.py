"""Augmentation: what it may change and what it must leave."""

import numpy
import pytest
import torch

from vitspeech.data.images.augment import Augment, cut_out, translate

NOTHING = {"flip": False, "translate": 0}


def numbered(count: int = 13, side: int = 11) -> torch.Tensor:
    """Images whose every pixel says where it was."""
    return torch.arange(count * 3 * side * side).remainder(251).to(torch.uint8).view(count, 3, side, side)


def test_nothing_switched_on_changes_nothing():
    images, labels = numbered(), torch.arange(13) % 5
    augment = Augment(**NOTHING)
    assert torch.equal(augment.pixels(images), images)
    assert augment.erase(images) is images
    assert augment.mix(images, labels, 5)[1] is labels


def test_flip_mirrors_whole_images_about_half_of_the_time():
    images = numbered(400)
    flipped = Augment(flip=True, translate=0).pixels(images)
    mirrored = (flipped == images.flip(-1)).flatten(1).all(1)
    same = (flipped == images).flatten(1).all(1)
    assert (mirrored | same).all()
    assert 150 < mirrored.sum() < 250


def test_translation_is_a_window_of_the_reflected_image():
    images = numbered(29)
    padded = torch.nn.functional.pad(images.float(), (2, 2, 2, 2), mode="reflect").to(torch.uint8)
    seen = set()
    for image, whole in zip(translate(images, 2), padded, strict=True):
        places = [(y, x) for y in range(5) for x in range(5) if torch.equal(whole[:, y : y + 11, x : x + 11], image)]
        assert places
        seen.update(places)
    assert len(seen) > 10


def test_cutout_clears_one_square_and_leaves_the_rest():
    images = torch.ones(50, 3, 17, 17)
    holes = cut_out(images, 5) == 0
    assert (holes[:, 0] == holes[:, 1]).all()
    rows, columns = holes[:, 0].any(2).sum(1), holes[:, 0].any(1).sum(1)
    assert (holes[:, 0].sum((1, 2)) == rows * columns).all()
    assert rows.max() == 5 and rows.min() >= 3  # centered in the image, so at most half hangs over the border


def test_mixup_blends_labels_as_it_blends_pixels():
    images = torch.zeros(7, 3, 4, 4)
    images[:3] = 1  # the batch is mixed with its reverse: images 0..2 of six meet images 5..3
    labels = torch.tensor([1, 1, 1, 0, 0, 0, 2])
    mixed, shares = Augment(**NOTHING, mixup=1.0).mix(images, labels, 3)
    assert torch.allclose(mixed[:6].mean((1, 2, 3)), shares[:6, 1].to(mixed.dtype), atol=1e-5)
    assert torch.allclose(shares.sum(1), torch.ones(7))
    assert shares[6].tolist() == [0, 0, 1]  # the odd one out stays itself


def test_same_seed_gives_the_same_batch():
    augment = Augment(translate=2, cutout=3, randaugment=1)
    results = []
    for _ in range(2):
        torch.manual_seed(5)
        results.append(augment.erase(augment.pixels(numbered(side=16)).float()))
    assert torch.equal(*results)


@pytest.mark.parametrize("name", ["translate", "cutout", "randaugment", "mixup", "cutmix"])
def test_a_negative_number_is_refused_by_name(name):
    with pytest.raises(ValueError, match=f"{name}=-1 is not a number from 0"):
        Augment(**{name: -1})


def test_cutmix_pastes_a_box_of_the_partner_and_shares_the_labels():
    numpy.random.seed(0)
    images = torch.arange(8.0)[:, None, None, None].expand(8, 3, 16, 16)
    mixed, shares = Augment(**NOTHING, cutmix=1.0).mix(images, torch.arange(8), 8)
    assert 0.1 < shares.max() < 0.9  # a box that is neither empty nor the whole image
    for index, image in enumerate(mixed):
        assert set(image.unique().tolist()) == {index, 7 - index}  # a batch meets its reverse
        assert shares[index, index].item() == pytest.approx((image == index).float().mean().item())
        assert shares[index].sum().item() == pytest.approx(1)
