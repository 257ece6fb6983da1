"""Masked prediction: accuracy and losses over masked tokens by hand."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vitspeech.evaluation.masked import evaluate

LOGITS = torch.tensor([[2.0, 0, 0], [0, 1, 0], [1, 0, 3], [0.5, 0, 0]])
CODES = torch.tensor([0, 1, 0, 0])


class Stub(nn.Linear):
    """Predicts one token of the first item and three of the second."""

    def forward(self, waveforms, lengths):
        return LOGITS, CODES, torch.tensor([[True, False, False], [True, True, True]])


def test_tokens_of_all_items_count_alike():
    loader = [(torch.zeros(2, 10),)]
    data = SimpleNamespace(items="clips", normalize=lambda waveforms: waveforms, test_dataloader=lambda: loader)
    values = evaluate(Stub(1, 1), data, progress=False).metrics
    assert values["masked_accuracy"] == 3 / 4 and values["masked_tokens"] == 4
    assert values["masked_loss"] == pytest.approx(F.cross_entropy(LOGITS, CODES).item())
    assert values["marginal_loss"] == pytest.approx(-0.75 * math.log(0.75) - 0.25 * math.log(0.25))
    assert values["commonest_code"] == 3 / 4


class Predicts(nn.Linear):
    """Predicts the codes of two tokens of each item; of the first `right` items both are right, of the others none."""

    def forward(self, waveforms, lengths):
        hits = (waveforms[:, 0] > 0).repeat_interleave(2)
        return (
            F.one_hot((~hits).long(), 2).float(),
            torch.zeros(len(hits), dtype=torch.long),
            hits.new_ones(len(waveforms), 2),
        )


@pytest.mark.parametrize("speakers", [None, ["a", "a", "a", "b", "b", "b"], [["a", "a"]] * 3 + [["b"]] * 3])
def test_the_interval_is_over_speakers_or_items(speakers):
    """All of one speaker's tokens are right, none of the other's: resamples of two speakers have 0, 50 or 100 %."""
    inputs = torch.tensor([1.0, 1, 1, -1, -1, -1])[:, None].expand(6, 10)
    loader = Loader([(inputs,)], SimpleNamespace(speakers=speakers))
    data = SimpleNamespace(items="clips", normalize=lambda waveforms: waveforms, test_dataloader=lambda: loader)
    report = evaluate(Predicts(1, 1), data, progress=False)
    assert report.metrics["masked_accuracy"] == 0.5
    if speakers is None:
        low, high = report.metrics["interval_95"]
        assert 0 < low < 0.3 and 0.7 < high < 1 and report.metrics["interval_over"] == "clips"
    else:
        assert report.metrics["interval_95"] == [0, 1] and report.metrics["interval_over"] == "speakers"
        assert report.metrics["speakers"] == 2
    rows = list(report.table().rows)
    assert [row[:3] for row in rows] == [(index, 2, 2 if index < 3 else 0) for index in range(6)]


class Loader(list):
    """Batches, and the data set that they are of."""

    def __init__(self, batches, dataset):
        super().__init__(batches)
        self.dataset = dataset
