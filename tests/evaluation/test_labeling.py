"""Frame accuracy and F1 of words, of labels made by hand.

Frames of 20 ms from 40 ms on: frame f's center is at 50 + 20 f milliseconds.
"""

import hashlib
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vitspeech.data.batches import SpeechBatch
from vitspeech.evaluation.labeling import evaluate

GO, STOP, NONE = 0, 1, 2


class Given(nn.Module):
    """A network whose labels are its samples, one a frame, at a logit of 9."""

    first_frame_ms, frame_ms, logit = 40.0, 20.0, 9.0

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(()))

    def forward(self, waveforms, lengths):
        return self.logit * F.one_hot(waveforms.long(), 3) + self.weight, lengths


def of_milliseconds(*spans):
    return torch.tensor(spans) * 16


# The first utterance of 30 frames: go from 80 to 280 ms (centers 90 .. 270: frames 2 .. 11), stop from 400 to 560 ms
# (18 .. 25). Go is heard in frames 2 .. 9, so to 240 ms: within 50 ms; stop in 18 .. 27, to 600 ms: within 50 ms.
FIRST = [NONE] * 2 + [GO] * 8 + [NONE] * 8 + [STOP] * 10 + [NONE] * 2
# The second of 20 frames: stop from 60 to 260 ms (frames 1 .. 10). It is heard in frames 1 .. 18, to 420 ms: its start
# alone is right. Behind the 20 frames is padding, where go is heard in vain.
SECOND = [NONE] + [STOP] * 18 + [NONE] + [GO] * 10


@pytest.fixture
def data():
    speech = SpeechBatch(
        torch.tensor([FIRST, SECOND]),
        torch.tensor([30, 20]),
        torch.tensor([[GO, STOP], [STOP, -1]]),
        torch.stack((of_milliseconds((80, 280), (400, 560)), of_milliseconds((60, 260), (0, 0)))),
    )
    return SimpleNamespace(
        labels=["go", "stop"],
        preprocessing={"sample_rate_hz": 16_000},
        manifests=[],
        normalize=lambda samples: samples,
        test_dataloader=lambda: [(speech, 0)],
    )


def test_the_share_of_frames_with_the_right_label_counts_no_padding(data):
    found = evaluate(Given(), data, progress=False)
    # Wrong are frames 10, 11 (go not heard) and 26, 27 (stop for too long); in the second 11 .. 18.
    assert found.headline == ("frame_accuracy", (50 - 2 - 2 - 8) / 50)
    assert found.metrics["frames"] == 50
    low, high = found.metrics["interval_95"]
    assert low < 0.76 < high


def test_the_interval_resamples_speakers_with_all_frames_of_their_words(data):
    class Loader(list):
        dataset = SimpleNamespace(speakers=[["ann", "bob"], ["ann"]])

    batches = data.test_dataloader()
    data.test_dataloader = lambda: Loader(batches)
    found = evaluate(Given(), data, progress=False).metrics
    # Frames 0 .. 14 are nearer to go, which ends at 280 ms, and 15 .. 29 nearer to stop, which begins at 400 ms.
    ann, bob = (15 - 2 + 20 - 8) / 35, (15 - 2) / 15
    assert (found["interval_over"], found["speakers"]) == ("speakers", 2)
    assert found["interval_95"] == [round(ann, 4), round(bob, 4)]
    # Both find their words of the first utterance, but Ann's in the second ends too late.
    assert found["word_f1_interval_95"] == [0.5, 1.0]
    assert found["onset_f1_interval_95"] == [0.3424, 1.0]  # all are right, so Wilson's of two speakers


def test_words_count_whose_start_and_end_are_right(data):
    found = evaluate(Given(), data, progress=False).metrics
    assert found["word_precision"] == found["word_recall"] == found["word_f1"] == pytest.approx(2 / 3)
    assert found["onset_f1"] == 1.0 and found["tolerance_ms"] == 50


def test_a_run_below_150_ms_is_no_word_but_its_frames_count(data):
    steady = evaluate(Given(), data, progress=False).metrics
    waveforms = data.test_dataloader()[0][0].waveforms
    waveforms[0, 12:18] = GO  # 120 ms in the pause
    found = evaluate(Given(), data, progress=False).metrics
    assert found["frame_accuracy"] == pytest.approx(steady["frame_accuracy"] - 6 / 50)
    assert all(found[name] == steady[name] for name in ("word_f1", "word_precision", "onset_f1"))
    waveforms[0, 2:10] = NONE
    waveforms[0, 10:18] = GO  # 160 ms, a word at another time
    assert evaluate(Given(), data, progress=False).metrics["onset_f1"] == pytest.approx(2 / 3)


def test_the_report_names_the_test_set_and_can_be_read(data, tmp_path):
    report = evaluate(Given(), data, progress=False)
    assert report.metrics["test_set"] == "drawn"
    assert report.text == (
        "frame_accuracy 0.7600 (0.6000 to 0.8667) of 50 frames, interval over utterances (speakers unknown); words "
        "within 50 ms: F1 0.6667 (0.0000 to 1.0000; precision 0.6667, recall 0.6667; by onset only F1 1.0000)"
    )
    assert "manifest_sha256" not in report.metrics
    (tmp_path / "others.jsonl").write_bytes(b"utterances")
    data.manifests = [str(tmp_path / "others.jsonl"), "further.jsonl"]
    metrics = evaluate(Given(), data, progress=False).metrics
    assert metrics["test_set"] == "others"
    assert metrics["manifest_sha256"] == hashlib.sha256(b"utterances").hexdigest()
