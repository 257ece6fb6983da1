"""The probe of distances: what it trains, what it leaves alone, what it writes."""

import json
from pathlib import Path

import pytest
import yaml
from tiny import ROOT

from vitspeech.commands import receptive
from vitspeech.data.images import two_marks
from vitspeech.receptive import probe
from vitspeech.receptive.probe import draw, probe_distance
from vitspeech.tasks import Classification
from vitspeech.training.train import TrainingCLI

VIT, CNN = (ROOT / "configs/two_marks" / name for name in ("vit.yaml", "cnn.yaml"))
TINY = (
    "--data.init_args.count=60",
    "--data.init_args.batch=20",
    "--trainer.max_epochs=2",
    "--trainer.precision=32-true",
    "--trainer.enable_progress_bar=false",
)


@pytest.fixture
def commands(monkeypatch):
    """Runs that are finished at once: what would have been trained, each with an accuracy of its own."""
    commands = []

    class Trained:
        def __init__(self, arguments: list[str]) -> None:
            self.arguments = arguments

        def train(self) -> None:
            commands.append(self.arguments)
            given = dict(argument.removeprefix("--").split("=", 1) for argument in self.arguments)
            model = Path(given.get("run") or given["resume"]) / "model"
            model.mkdir(parents=True)
            accuracy = 0.5 + len(commands) / 100
            metrics = {"test_accuracy": accuracy, "interval_95": [accuracy - 0.02, accuracy + 0.01], "images": 2000}
            origin = {"commit": "c0ffee", "hardware": "2 × GPU", "versions": {}}
            card = {"metrics": metrics, "parameters": 101_000, "minutes": 0.7, **origin}
            (model / "card.json").write_text(json.dumps(card))
            name = "vitspeech.ViT" if "two_marks-vit" in str(model) else "vitspeech.CNN"
            (model / "config.yaml").write_text(yaml.safe_dump({"network": {"class_path": name}}))

    monkeypatch.setattr(probe, "TrainingCLI", Trained)
    return commands


def test_every_config_is_trained_at_every_distance_with_every_seed(commands, tmp_path):
    report = probe_distance([VIT, CNN], [5, 9.5], tmp_path, seeds=2, overrides=["--trainer.max_epochs=3"])
    assert len(commands) == 8 and report["complete"]
    assert commands[3] == [
        f"--config={CNN}",
        "--trainer.max_epochs=3",
        "--data.init_args.distance=9.5",
        "--seed_everything=0",
        f"--run={tmp_path}/two_marks-cnn-9.5px/0",
    ]
    rows = {(row["model"], row["distance_px"], row["seed"]): row["accuracy"] for row in report["rows"]}
    assert len(rows) == 8 and rows["CNN", 9.5, 0] == 0.54 and rows["ViT", 5, 1] == 0.55
    assert report["rows"][3] == {
        "model": "CNN",
        "config": "two_marks/cnn",
        "parameters": 101_000,
        "distance_px": 9.5,
        "seed": 0,
        "accuracy": 0.54,
        "interval": [0.52, 0.55],
        "minutes": 0.7,
    }


def test_what_is_returned_is_written_without_this_machines_folders(commands, tmp_path):
    report = probe_distance([VIT], [7], tmp_path)
    text = (tmp_path / "probe.json").read_text()
    assert json.loads(text) == report and (report["commit"], report["hardware"]) == ("c0ffee", "2 × GPU")
    assert str(ROOT) not in text and str(tmp_path) not in text
    assert (tmp_path / "probe.png").read_bytes().startswith(b"\x89PNG")


def test_a_finished_run_is_not_made_again_and_a_broken_one_is_resumed(commands, tmp_path):
    broken = tmp_path / "two_marks-vit-9px/0"
    broken.mkdir(parents=True)
    (broken / "config.yaml").touch()
    first = probe_distance([VIT], [5, 9], tmp_path, trust=["mine"])
    assert commands[0][-1] == "--trust=mine" and commands[1] == [f"--resume={broken}", "--trust=mine"]
    assert probe_distance([VIT], [5, 9], tmp_path) == first and len(commands) == 2
    more = probe_distance([VIT], [5, 7, 9], tmp_path)
    assert len(commands) == 3 and [row["distance_px"] for row in more["rows"]] == [5, 7, 9]


def test_the_command_passes_trust_on_and_overrides_apart_from_it(commands, tmp_path):
    arguments = [f"--configs={VIT}", "--distances", "5", "--trust", "mine", f"-o{tmp_path}", "--trainer.max_epochs=3"]
    receptive.probe(arguments)
    assert "--trust=mine" in commands[0] and "--trainer.max_epochs=3" in commands[0]
    assert json.loads((tmp_path / "probe.json").read_text())["settings"]["overrides"] == ["--trainer.max_epochs=3"]
    receptive.probe(arguments)
    assert len(commands) == 1


def test_a_probe_that_is_broken_off_says_so(commands, tmp_path, monkeypatch):
    def stop(text: str) -> None:
        if text.startswith("run 3 of 4: two_marks/vit, 9 px, seed 0"):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        probe_distance([VIT, CNN], [5, 9], tmp_path, note=stop)
    report = json.loads((tmp_path / "probe.json").read_text())
    assert not report["complete"] and len(report["rows"]) == 2


def test_a_folder_of_another_probe_is_refused(commands, tmp_path):
    probe_distance([VIT], [5], tmp_path)
    for configs, overrides in (([CNN], []), ([VIT], ["--trainer.max_epochs=3"])):
        with pytest.raises(FileExistsError, match=r"probe.json: of other configs or overrides"):
            probe_distance(configs, [5], tmp_path, overrides=overrides)
    assert len(commands) == 1


@pytest.mark.parametrize(
    ("configs", "distances", "seeds", "message"),
    [
        ([VIT, VIT], [5], 1, "are not all different"),
        ([VIT], [5], 0, "seeds=0 is below 1"),
        ([VIT], [5, 17], 1, "distance=17"),
    ],
)
def test_what_cannot_be_probed_is_refused_before_anything_is_trained(
    commands, tmp_path, configs, distances, seeds, message
):
    with pytest.raises(ValueError, match=message):
        probe_distance(configs, distances, tmp_path / "new", seeds=seeds)
    assert not commands and not (tmp_path / "new").exists()


def test_the_picture_has_a_line_through_the_means_and_a_point_for_each_run(tmp_path, figures):
    common = {"model": "ViT", "parameters": 157_000, "interval": [0.5, 0.7]}
    rows = [
        common | {"config": config, "distance_px": distance, "seed": seed, "accuracy": accuracy + 0.1 * seed}
        for config, accuracy in (("mine/0", 0.6), ("mine/1", 0.8), *((f"mine/{n}", 0.5) for n in range(2, 6)))
        for distance in (7, 5)
        for seed in (0, 1)
    ]
    draw({"rows": rows}, tmp_path / "probe.png")
    shown = figures[0].axes[0].lines
    lines = {line.get_label(): line for line in shown}
    first, second = (lines[f"ViT, 157,000 parameters (mine/{number})"] for number in (0, 1))
    assert list(first.get_xdata()) == [5, 7] and first.get_ydata() == pytest.approx([65, 65])
    assert second.get_ydata() == pytest.approx([85, 85])
    assert len({(line.get_color(), line.get_marker(), line.get_linestyle()) for line in (first, second)}) == 2
    assert list(lines["chance"].get_ydata()) == [50, 50]
    points = [line.get_ydata()[0] for line in shown if len(line.get_xdata()) == 1]
    assert sorted(points)[-4:] == pytest.approx([80, 80, 90, 90])


def test_a_real_probe_broken_off_in_a_run_ends_as_one_left_alone(tmp_path, monkeypatch):
    monkeypatch.setattr(two_marks, "EVALUATION_COUNT", 40)
    monkeypatch.chdir(tmp_path)
    alone = probe_distance([CNN], [5], tmp_path / "alone", overrides=TINY)
    healthy = Classification.loss

    def breaks(task: Classification, batch: tuple) -> object:
        if task.trainer.global_step == 4:  # the second of three steps of the last epoch
            raise RuntimeError("the power is gone")
        return healthy(task, batch)

    monkeypatch.setattr(Classification, "loss", breaks)
    with pytest.raises(RuntimeError, match="the power is gone"):
        probe_distance([CNN], [5], tmp_path / "broken", overrides=TINY)
    monkeypatch.setattr(Classification, "loss", healthy)
    resumed = probe_distance([CNN], [5], tmp_path / "broken", overrides=TINY)
    weights = [tmp_path / name / "two_marks-cnn-5px/0/model/model.safetensors" for name in ("alone", "broken")]
    assert weights[0].read_bytes() == weights[1].read_bytes()
    (one,), (other,) = alone["rows"], resumed["rows"]
    assert one["accuracy"] == other["accuracy"] and one["parameters"] == other["parameters"] > 100_000
    assert one["model"] == "CNN" and one["interval"][0] < one["accuracy"] < one["interval"][1]


def test_both_configs_train_networks_of_equal_size_alike(tmp_path):
    built = [TrainingCLI([f"--config={path}", f"--run={tmp_path / path.stem}"]) for path in (VIT, CNN)]
    sizes = [sum(weight.numel() for weight in cli.model.network.parameters()) for cli in built]
    assert abs(sizes[0] / sizes[1] - 1) < 0.03 and all(100_000 < size < 250_000 for size in sizes)
    one, other = (cli.config.as_dict() for cli in built)
    assert one["data"] == other["data"] and one["trainer"] == other["trainer"]
    one, other = (config["model"]["init_args"]["optimizer"]["class_path"] for config in (one, other))
    assert one == other
