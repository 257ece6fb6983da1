"""Inference and evaluation on a GPU: the results are those of the CPU."""

import pytest

import vitspeech

pytestmark = pytest.mark.gpu
DEVICE = "cuda"
SEARCHES = [
    ("finished_recognizer_run", {"beam": 1}),
    ("finished_recognizer_run", {"beam": 4}),
    ("finished_transcriber_run", {"beam": 4, "ctc_weight": 0.5}),
    ("finished_transcriber_run", {"beam": 1, "ctc_weight": 0.0}),
]
RUNS = ["finished_run", "finished_speech_run", "finished_recognizer_run", "finished_transcriber_run"]
RUNS += ["finished_labeler_run", "finished_symbols_run", "finished_masked_run"]


@pytest.fixture
def on_gpu():
    def load(folder):
        model = vitspeech.load(folder)
        model.network.to(DEVICE)
        return model

    return load


@pytest.mark.parametrize(("run", "search"), SEARCHES)
def test_transcripts_are_those_of_the_cpu(request, words, on_gpu, run, search):
    folder, search = request.getfixturevalue(run), vitspeech.Search(**search)
    ((_, expected),) = vitspeech.transcribe(vitspeech.load(folder), [words], search=search)
    ((_, found),) = vitspeech.transcribe(on_gpu(folder), [words], search=search)
    assert (found.text, found.words) == (expected.text, expected.words)
    assert found.log_probability == pytest.approx(expected.log_probability, rel=1e-3)


def test_labels_are_those_of_the_cpu(finished_speech_run, words, on_gpu):
    ((_, expected),) = vitspeech.predict(vitspeech.load(finished_speech_run), [words], top=10)
    ((_, found),) = vitspeech.predict(on_gpu(finished_speech_run), [words], top=10)
    assert dict(found) == pytest.approx(dict(expected), abs=1e-3)


@pytest.mark.parametrize("run", RUNS)
def test_evaluation_gives_the_number_of_the_cpu(request, command, run):
    folder = request.getfixturevalue(run)
    numbers = []
    for device in ("cpu", DEVICE):
        result = command("evaluate", folder, "--device", device)
        assert result.returncode == 0, result.stderr
        numbers.append(float(result.stdout.split()[-1]))
    assert numbers[1] == pytest.approx(numbers[0], abs=2e-3)
