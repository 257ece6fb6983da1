"""Learning to reverse: the decoder learns where to look, and the task accepts symbols while the others do not."""

import pytest
import torch

from vitspeech.data import SymbolTasks
from vitspeech.models import Seq2Seq
from vitspeech.tasks import Classification, Labeling, Recognition, Transcription

STEPS, LONGEST = 250, 6


def test_the_cross_attention_of_a_network_that_reverses_is_the_anti_diagonal():
    torch.manual_seed(0)
    data = SymbolTasks("reverse", symbols=6, shortest=3, longest=LONGEST)
    train, block = data.read("train"), {"depth": 1, "heads": 2, "mlp_ratio": 2.0}
    network = Seq2Seq(6, 6, 32, block, decoder=block)
    task = Transcription(network)
    task.labels = data.labels
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 1e-2, STEPS)
    for step in range(STEPS):
        batch, _ = train[torch.arange(64), step]
        optimizer.zero_grad()
        (task.group_loss(*batch) / batch.lengths.sum()).backward()
        optimizer.step()
        schedule.step()
    network.eval()
    test = data.read("test")
    longest = [place for place, row in enumerate(test.inputs) if len(row) == LONGEST][:100]
    batch, _ = test[torch.tensor(longest), 0]
    with torch.no_grad():
        encoded, padding = network.encode(batch.symbols, batch.lengths)
        outputs = task.greedy_transcripts(encoded, padding)
        weights = network.cross_attention(encoded, padding, batch.units)[0, ..., :-1, :]
    anti_diagonal = torch.arange(LONGEST - 1, -1, -1)
    found = weights.argmax(-1) == anti_diagonal  # (B, H, U)
    assert found.float().mean((0, 2)).max() > 0.9
    assert any(torch.equal(head.argmax(-1), anti_diagonal) for head in weights.mean(0))
    right = sum(list(output) == list(test.outputs[place]) for output, place in zip(outputs, longest, strict=True))
    assert right > 0.9 * len(longest)


@pytest.mark.parametrize("task", [Classification, Labeling, Recognition])
def test_other_tasks_send_symbols_to_transcription(task):
    with pytest.raises(ValueError, match=f"{task.__name__} does not fit SymbolTasks.*; use vitspeech.Transcription$"):
        task.check_data(SymbolTasks())
    Transcription.check_data(SymbolTasks())
