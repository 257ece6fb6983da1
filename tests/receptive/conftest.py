"""Two comparisons of tiny models that the tests of results, report and figures share."""

import pytest

from vitspeech.receptive.compare import compare
from vitspeech.receptive.plan import Plan
from vitspeech.receptive.sample import sample_for
from vitspeech.receptive.subjects import subject

PLAN = Plan(inputs=3, answers=5)


@pytest.fixture(scope="session")
def images_compared(finished_run):
    """A tiny ViT, and a ResNet without weights: their results and the sample."""
    subjects = [subject(str(finished_run)), subject("timm:resnet10t", size=32)]
    sample = sample_for(subjects, None, PLAN.answers)
    return compare(subjects, sample, PLAN), sample


@pytest.fixture(scope="session")
def speech_compared(finished_speech_run):
    """A tiny speech classifier with truncated attention: its results and the sample."""
    subjects = [subject(str(finished_speech_run))]
    sample = sample_for(subjects, None, PLAN.answers)
    return compare(subjects, sample, PLAN), sample
