"""Divided weights: every task computes in training and validation what it computes with whole ones."""

import os
import subprocess
import sys

from tiny import ROOT

SCRIPT = """
import copy
import torch
from torch import distributed
from torch.distributed.device_mesh import init_device_mesh
import vitspeech
from vitspeech import tasks
from vitspeech.tasks.sharding import is_sharded, shard

distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
torch.manual_seed(0)
waveforms = 0.1 * torch.randn(4, 16_000)
utterances = waveforms, torch.tensor([16_000] * 4), torch.tensor([[0, 1]] * 4), torch.ones(4, 2, 2)
for name, cls in {
    "Spotting": "SpeechClassifier",
    "Recognition": "SpeechRecognizer",
    "Transcription": "SpeechTranscriber",
    "JointRecognition": "SpeechTranscriber",
}.items():
    options = {"ctc": True} if name == "JointRecognition" else {}
    tokens, encoder = vitspeech.SpeechFrontend(16, mels=20), {"depth": 2, "heads": 2, "left": 4, "right": 2}
    network = getattr(vitspeech, cls)(3, tokens, encoder, **options)
    whole, divided = (getattr(tasks, name)(each) for each in (network, copy.deepcopy(network)))
    shard(divided.network, init_device_mesh("cpu", (1,)))
    assert is_sharded(divided.network)
    for task in (whole, divided):
        task.labels = ["a", "b", "c"]
        task.eval()
    batch = (waveforms, torch.tensor([0, 1, 2, 0])) if name == "Spotting" else utterances
    expected, found = whole.loss(batch), divided.loss(batch)
    torch.testing.assert_close(found, expected)
    found.backward()
    if name != "Spotting":
        with torch.no_grad():
            assert divided.loss_and_transcripts(*batch)[1] == whole.loss_and_transcripts(*batch)[1]
distributed.destroy_process_group()
"""


def test_every_task_computes_the_same_with_divided_weights():
    environment = os.environ | {"PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}
    words = [sys.executable, "-W", "ignore", "-c", SCRIPT]
    result = subprocess.run(words, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
