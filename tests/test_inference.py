"""From files to labels: the same answer however the files come."""

import pytest
import torch
from PIL import Image

import vitspeech
from vitspeech.data.shapes import save_example


@pytest.fixture
def folder(tmp_path):
    for label in ("star", "ring", "heart", "bar", "cross"):
        save_example(str(tmp_path / f"{label}.png"), label)
    Image.open(tmp_path / "star.png").convert("RGBA").resize((300, 200)).save(tmp_path / "wide.webp")
    return tmp_path


def test_a_folder_gives_what_its_files_give_one_by_one(finished_run, folder):
    model = vitspeech.load(finished_run)
    together = list(vitspeech.predict(model, [folder], batch=4))
    assert [path.name for path, _ in together] == [
        "bar.png",
        "cross.png",
        "heart.png",
        "ring.png",
        "star.png",
        "wide.webp",
    ]
    for path, labels in together:
        ((_, alone),) = vitspeech.predict(model, [path])
        assert [label for label, _ in alone] == [label for label, _ in labels]
        assert [share for _, share in alone] == pytest.approx([share for _, share in labels], abs=1e-5)


def test_probabilities_fall_and_sum_to_one(finished_run, folder):
    ((_, labels),) = vitspeech.predict(vitspeech.load(finished_run), [folder / "star.png"], top=99)
    shares = [share for _, share in labels]
    assert len(shares) == 10 and sum(shares) == pytest.approx(1, abs=1e-5)
    assert shares == sorted(shares, reverse=True)


def test_prediction_equals_the_network_on_the_same_pixels(finished_run, folder):
    model = vitspeech.load(finished_run)
    image = Image.open(folder / "star.png").resize((32, 32), Image.Resampling.BICUBIC)
    pixels = torch.frombuffer(bytearray(image.tobytes()), dtype=torch.uint8).view(32, 32, 3).permute(2, 0, 1) / 255
    expected = model.network(((pixels - 0.5) / 0.25)[None]).softmax(-1).max().item()
    ((_, labels),) = vitspeech.predict(model, [folder / "star.png"], top=1)
    assert labels[0][1] == pytest.approx(expected, abs=1e-4)


def test_no_label_at_all_is_refused(finished_run, folder):
    with pytest.raises(ValueError, match="top=0 is below 1"):
        next(vitspeech.predict(vitspeech.load(finished_run), [folder], top=0))
