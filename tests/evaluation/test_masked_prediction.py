"""Masked prediction: accuracy and losses over masked tokens by hand."""

import math
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from vitspeech.evaluation.masked_prediction import evaluate

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
