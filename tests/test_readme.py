"""A number in README.md or in the table of models is the one in the card."""

import json
import re
from statistics import mean, stdev

import pytest
import torch
from tiny import ROOT

import vitspeech
from vitspeech.checkpoint.release import card_data, table
from vitspeech.data.files import sha256
from vitspeech.data.utterances.word_sequences import manifest_file
from vitspeech.evaluation.recognition import transcripts
from vitspeech.inference.transcribe import Search
from vitspeech.metrics.word_errors import score

CARDS = sorted((ROOT / "checkpoints").glob("*/card.json"))


def test_the_models_this_project_promises_are_released():
    assert {path.parent.name for path in CARDS} >= {
        "cnn-cifar10",
        "vit-cifar10",
        "speech-commands",
        "speech-commands-truncated",
        "spoken-words-ctc",
        "spoken-words-attention",
    }


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.parent.name)
def test_the_readmes_row_is_the_cards(path):
    card = json.loads(path.read_text())
    rows = [line for line in (ROOT / "README.md").read_text().splitlines() if f"checkpoints/{card['name']}" in line]
    row = next(line for line in rows if line.startswith("|"))
    metrics = card["metrics"]
    shown = ("test_accuracy", "word_accuracy", "word_error_rate", "character_error_rate")
    for of_set in (metrics, *metrics.get("also", {}).values()):
        assert [name for name in shown if name in of_set]
        for name in shown:
            assert name not in of_set or f"{100 * of_set[name]:.2f} %" in row
    for name in [name.removesuffix("_sd") for name in metrics if name.endswith("_sd")]:
        assert f"{100 * metrics[f'{name}_mean']:.2f} ± {100 * metrics[f'{name}_sd']:.2f}" in row
    assert f"{card['parameters'] / 1e6:.2f} M" in row
    assert f"| {card['minutes']:.0f}, {card['hardware']}" in row


def test_the_table_of_models_is_made_from_the_cards():
    text = (ROOT / "checkpoints/README.md").read_text()
    assert text.endswith("\n".join(table([json.loads(path.read_text()) for path in CARDS])) + "\n")


@pytest.mark.parametrize("path", CARDS, ids=lambda path: path.parent.name)
def test_a_released_model_loads_and_is_small(path):
    model = vitspeech.load(path.parent)
    assert sum(parameter.numel() for parameter in model.network.parameters()) == model.card["parameters"]
    assert (path.parent / "model.safetensors").stat().st_size <= 10e6


def is_transcriber(path):
    return "word_error_rate" in json.loads(path.read_text())["metrics"]


CLASSIFIERS = [path for path in CARDS if not is_transcriber(path)]
TRANSCRIBERS = [path for path in CARDS if is_transcriber(path)]


@pytest.mark.data
@pytest.mark.filterwarnings("ignore:.* clips are clipped")  # so are 29 of the real test clips
@pytest.mark.parametrize("path", CLASSIFIERS, ids=lambda path: path.parent.name)
def test_a_released_model_is_right_as_often_as_its_card_says(path):
    """On 1,000 test items from all over the set: within four standard errors of the card's number."""
    model = vitspeech.load(path.parent)
    data = card_data(model, None)
    test = data.read("test")
    places = torch.linspace(0, len(test) - 1, 1000).long()
    with torch.inference_mode():
        given = model.network(data.normalize(test.inputs[places])).argmax(1)
    share, card = (given == test.labels[places]).float().mean().item(), model.card["metrics"]["test_accuracy"]
    assert abs(share - card) < 4 * (card * (1 - card) / 1000) ** 0.5


def test_the_streaming_recognizer_is_within_its_bound():
    """Eight in a hundred words: twice what single words are mistaken in."""
    card = json.loads((ROOT / "checkpoints/spoken-words-ctc/card.json").read_text())
    assert card["metrics"]["word_error_rate"] <= 0.08 and card["metrics"]["words"] > 4000
    assert card["metrics"]["manifest_sha256"] == sha256(manifest_file("speech-commands-1-7"))


@pytest.mark.data
@pytest.mark.parametrize("path", TRANSCRIBERS, ids=lambda path: path.parent.name)
def test_a_released_transcriber_errs_as_often_as_its_card_says(path):
    """On every fifth utterance of the manifest: within four standard errors of the card's number."""
    model = vitspeech.load(path.parent)
    data, card = card_data(model, None), model.card["metrics"]
    test = data.read("test")
    test.utterances = test.utterances[::5]
    heard = transcripts(model.network, data, test, Search(**card["search"]), progress=False)
    found = score([" ".join(utterance.words) for utterance in test.utterances], heard)
    deviation = (card["interval_95"][1] - card["interval_95"][0]) / (2 * 1.96) * 5**0.5
    assert abs(found.wer - card["word_error_rate"]) < 4 * deviation


def measured(name):
    return json.loads((ROOT / f"docs/benchmark/{name}.json").read_text())


def attention_rows(report):
    """README's rows of truncated attention: milliseconds of ours, how many times that each peer takes, peak memory."""
    memory = {(cell["tokens"], cell["dtype"], cell["variant"]): cell.get("extra_mib") for cell in report["memory"]}
    for cell in report["cells"]:
        if cell["pass"] == "forward+backward":
            tokens, dtype, times = cell["tokens"], cell["dtype"], cell["times"]
            row = [f"{tokens:,}", dtype, f"{times['ours']['median_ms']:.1f}"]
            for peer in ("full", "dense mask", "local-attention", "LSTM", "convolution"):
                row.append(f"{times[peer]['ratio']:.1f}" if peer in times else "–")
            held = [memory[tokens, dtype, name] for name in ("ours", "full", "local-attention")]
            row.append(" / ".join("–" if size is None else f"{size:,.0f}" for size in held))
            yield f"| {' | '.join(row)} |"


def vit_rows(report):
    """README's rows of a ViT's training step: images/s in each precision."""
    for name in report["cells"][0]["times"]:
        rates = (f"{cell['times'][name]['images_per_second']:.0f}" for cell in report["cells"])
        yield f"| {name} | {' | '.join(rates)} |"


def layer_rows(report):
    """README's rows of one layer of full attention: milliseconds of each."""
    for cell in report["cells"]:
        times = (f"{time['median_ms']:.1f}" for time in cell["times"].values())
        yield f"| {cell['tokens']} | {cell['dtype']} | {' | '.join(times)} |"


def speech_rows(report):
    """README's rows of speech: clips/s of the front end, of each network with the front end's share, of reading; and
    the stream's real-time factor, slowest push but one in a thousand, state and resident memory."""
    for name, time in report["log_mel"]["times"].items():
        yield f"| log-mel, {name} | {time['clips_per_second']:,.0f} |"
    for name in ("full", "truncated", "causal", "cnn"):
        times = [cell["times"][name] for cell in report["classify"]]
        cells = (f"{time['clips_per_second']:,.0f} ({time['log_mel_share']:.0%})" for time in times)
        yield f"| {name} | {' | '.join(cells)} |"
    for name, time in report["reading"]["times"].items():
        yield f"| {name} | {time['clips_per_second']:,.0f} |"
    for name in ("first", "last"):
        part = report["stream"]["stretches"][name]
        memory = f"{part['state_bytes']:,} | {part['resident_bytes'] / 2**20:,.0f}"
        yield f"| {name} minute | {part['real_time_factor']:.3f} | {part['all_but_one_in_1000_ms']:.1f} | {memory} |"


@pytest.mark.parametrize(
    "name, rows",
    [("attention", attention_rows), ("vit", vit_rows), ("layer", layer_rows), ("speech", speech_rows)],
)
def test_the_readmes_benchmark_is_the_one_that_was_run(name, rows):
    report, lines = measured(name), (ROOT / "README.md").read_text().splitlines()
    assert report["complete"] and report["settings"]["repeats"] >= 7
    assert all(cell["times"]["ours"]["repeats"] >= 7 for cell in report.get("cells", []))
    made = list(rows(report))
    assert len(made) >= 4 and not set(made) - set(lines)
    assert any(report["commit"] in line for line in lines)


def test_every_file_that_readme_names_exists():
    text = (ROOT / "README.md").read_text()
    named = set(re.findall(r"\b(?:vitspeech|scripts|configs|checkpoints|docs)/[\w/.-]+\.(?:py|sh|yaml|md|png)\b", text))
    assert len(named) > 20
    assert not {name for name in named if not (ROOT / name).exists()}


def estimate(numbers, digits):
    """A number and its interval as README writes them."""
    value, low, high = (f"{number:,.{digits}f}" for number in numbers)
    return f"{value} ({low}–{high})"


RECEPTIVE = {
    sense: json.loads((ROOT / "docs/receptive" / sense / "metrics.json").read_text())
    for sense in ("pictures", "speech")
}


@pytest.mark.parametrize(
    "sense, model", [(sense, model["name"]) for sense, report in RECEPTIVE.items() for model in report["models"]]
)
def test_the_readmes_row_on_what_a_model_sees_is_the_reports(sense, model):
    report = next(found for found in RECEPTIVE[sense]["models"] if found["name"] == model)
    lines = (ROOT / "README.md").read_text().partition("## What they see")[2].splitlines()
    cells = [cell.strip() for cell in next(line for line in lines if line.startswith(f"| `{model}`")).split("|")]
    main, larger, untrained = (
        next(state["layers"][-1] for state in report["states"] if wanted(state))
        for wanted in (
            lambda state: state["trained"] and state["size"] in (32, 1.0),
            lambda state: state["size"] not in (32, 1.0),
            lambda state: not state["trained"],
        )
    )
    digits, number = (1, "side") if sense == "pictures" else (0, "span")
    kept = report["visible"][f"keeps_90_{report['unit']}"]
    expected = [
        estimate(main["cumulative"][f"{number}_90"], digits),
        estimate(untrained["cumulative"][f"{number}_90"], digits),
        estimate(larger["cumulative"][f"{number}_90"], digits),
        ", ".join(f"{kept[name]:.{digits}f}" for name in ("mean", "blur", "shuffle")),
    ]
    if sense == "pictures":
        expected += [estimate(state["cumulative"]["side_50"], 1) for state in (main, untrained)]
    else:
        expected += [estimate(main["cumulative"][name], 0) for name in ("back_90", "ahead_90")]
        expected.append(f"{100 * main['cumulative']['ahead_share'][0]:.0f} %")
        reach = main["theoretical_reach"]
        expected.append(", ".join("everything" if there is None else f"{there:,.0f}" for there in reach))
    assert not set(expected) - set(cells)


PROBE = json.loads((ROOT / "docs/receptive/probe.json").read_text())["rows"]


@pytest.mark.parametrize("config", sorted({row["config"] for row in PROBE}))
def test_the_readmes_row_on_two_marks_is_the_probes(config):
    rows = sorted((row for row in PROBE if row["config"] == config), key=lambda row: row["distance_px"])
    shown = " | ".join(f"{100 * row['accuracy']:.1f}" for row in rows)
    assert f"`configs/{config}.yaml` | {shown} |" in (ROOT / "README.md").read_text()


def test_the_readme_has_the_mean_over_seeds_at_the_largest_distance():
    rows = json.loads((ROOT / "docs/receptive/probe-13px.json").read_text())["rows"]
    accuracies = [100 * row["accuracy"] for row in rows]
    assert f"{mean(accuracies):.1f} ± {stdev(accuracies):.1f} % at 13 px" in (ROOT / "README.md").read_text()
