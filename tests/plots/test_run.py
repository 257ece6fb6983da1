"""Metrics of interrupted runs, and pictures that are drawn."""

import torch
from matplotlib.axes import Axes

from vitspeech.plots.run import draw_confusion_matrix, draw_learning_curves, merge_metrics


def log(run, attempt, lines):
    folder = run / "logs" / str(attempt)
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text("epoch,step,train_loss_epoch,val_loss,val_accuracy\n" + "\n".join(lines) + "\n")


def test_a_step_run_twice_counts_once_and_the_later_one_stands(tmp_path):
    log(tmp_path, 0, ["0,4,,2.0,0.1", "0,4,2.2,,", "1,9,,1.5,0.2", "1,9,1.9,,", "2,14,,9.9,0.9"])
    log(tmp_path, 1, ["2,14,,1.2,0.4", "2,14,1.5,,"])
    rows = merge_metrics(tmp_path)
    assert [row["val_loss"] for row in rows if row["val_loss"]] == ["2.0", "1.5", "1.2"]
    assert [row["train_loss_epoch"] for row in rows if row["train_loss_epoch"]] == ["2.2", "1.9", "1.5"]
    assert (tmp_path / "metrics.csv").read_text().splitlines()[0].startswith("epoch,step,")


def test_a_line_that_was_being_written_when_the_run_was_killed_is_left_out(tmp_path):
    log(tmp_path, 0, ["0,4,,2.0,0.1", "1,9,"])
    assert [row["step"] for row in merge_metrics(tmp_path)] == ["4"]


def test_attempts_are_ordered_by_number_not_by_letter(tmp_path):
    for attempt in range(11):
        log(tmp_path, attempt, [f"0,4,,{attempt}.0,0.1"])
    assert [row["val_loss"] for row in merge_metrics(tmp_path)] == ["10.0"]


def test_pictures_are_drawn_for_few_and_many_classes(tmp_path):
    draw_learning_curves(
        [{"epoch": "0", "val_loss": "1", "val_accuracy": ".5", "train_loss_epoch": "2"}], tmp_path / "a.png"
    )
    for classes in (3, 30):
        path = tmp_path / f"{classes}.png"
        draw_confusion_matrix(torch.eye(classes, dtype=torch.long) * 7, [f"class {i}" for i in range(classes)], path)
        assert path.stat().st_size > 5000
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_curves_are_of_the_error_rate_where_there_is_one(tmp_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(Axes, "set", lambda axes, **labels: drawn.append(labels["ylabel"]))
    monkeypatch.setattr(Axes, "plot", lambda axes, epochs, values, **style: drawn.append(values))
    monkeypatch.setattr(Axes, "legend", lambda axes: None)
    rows = [{"epoch": "0", "val_loss": "", "val_error_rate": "", "train_loss_epoch": "2"}]
    rows += [{"epoch": str(epoch), "val_loss": "1", "val_error_rate": rate} for epoch, rate in enumerate((".9", "0.0"))]
    draw_learning_curves(rows, tmp_path / "a.png")
    assert drawn == [(2.0,), (1.0, 1.0), (0.9, 0.0), "loss (nats)", "error rate of units"]
    drawn.clear()
    draw_learning_curves([{"epoch": "0", "val_loss": "1", "val_accuracy": ".5"}], tmp_path / "a.png")
    assert drawn == [(1.0,), (0.5,), "loss (nats)", "accuracy"]
