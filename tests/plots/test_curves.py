"""Merged metrics of interrupted runs, and their learning curves."""

from matplotlib.axes import Axes

from vitspeech.plots.curves import draw_learning_curves, merge_metrics


def log(run, attempt, lines):
    folder = run / "logs" / str(attempt)
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text("epoch,step,train_loss_epoch,val_loss,val_accuracy\n" + "\n".join(lines) + "\n")


def test_of_a_step_logged_twice_the_later_one_counts(tmp_path):
    log(tmp_path, 0, ["0,4,,2.0,0.1", "0,4,2.2,,", "1,9,,1.5,0.2", "1,9,1.9,,", "2,14,,9.9,0.9"])
    log(tmp_path, 1, ["2,14,,1.2,0.4", "2,14,1.5,,"])
    rows = merge_metrics(tmp_path)
    assert [row["val_loss"] for row in rows if row["val_loss"]] == ["2.0", "1.5", "1.2"]
    assert [row["train_loss_epoch"] for row in rows if row["train_loss_epoch"]] == ["2.2", "1.9", "1.5"]
    assert (tmp_path / "metrics.csv").read_text().splitlines()[0].startswith("epoch,step,")


def test_an_incomplete_line_of_a_killed_run_is_skipped(tmp_path):
    log(tmp_path, 0, ["0,4,,2.0,0.1", "1,9,"])
    assert [row["step"] for row in merge_metrics(tmp_path)] == ["4"]


def test_logs_are_ordered_by_number_not_alphabetically(tmp_path):
    for attempt in range(11):
        log(tmp_path, attempt, [f"0,4,,{attempt}.0,0.1"])
    assert [row["val_loss"] for row in merge_metrics(tmp_path)] == ["10.0"]


def test_learning_curves_are_drawn(tmp_path):
    draw_learning_curves(
        [{"epoch": "0", "val_loss": "1", "val_accuracy": ".5", "train_loss_epoch": "2"}], tmp_path / "a.png"
    )
    assert (tmp_path / "a.png").stat().st_size > 5000


def test_curves_show_the_error_rate_if_there_is_one(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(Axes, "set", lambda axes, **labels: calls.append(labels["ylabel"]))
    monkeypatch.setattr(Axes, "plot", lambda axes, epochs, values, **style: calls.append(values))
    monkeypatch.setattr(Axes, "legend", lambda axes: None)
    rows = [{"epoch": "0", "val_loss": "", "val_error_rate": "", "train_loss_epoch": "2"}]
    rows += [{"epoch": str(epoch), "val_loss": "1", "val_error_rate": rate} for epoch, rate in enumerate((".9", "0.0"))]
    draw_learning_curves(rows, tmp_path / "a.png")
    assert calls == [(2.0,), (1.0, 1.0), (0.9, 0.0), "loss (nats)", "error rate of units"]
    calls.clear()
    draw_learning_curves([{"epoch": "0", "val_loss": "1", "val_accuracy": ".5"}], tmp_path / "a.png")
    assert calls == [(1.0,), (0.5,), "loss (nats)", "accuracy"]
