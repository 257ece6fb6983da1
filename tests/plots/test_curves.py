"""Learning curves."""

from matplotlib.axes import Axes

from vitspeech.plots.curves import draw_learning_curves


def test_learning_curves_are_drawn(tmp_path, monkeypatch):
    drawn, plot = [], Axes.plot
    monkeypatch.setattr(
        Axes, "plot", lambda axes, *values, **style: drawn.append(values[1]) or plot(axes, *values, **style)
    )
    draw_learning_curves(
        [{"epoch": "0", "val_loss": "1", "val_accuracy": ".5", "train_loss_epoch": "2"}], tmp_path / "a.png"
    )
    assert drawn == [(2.0,), (1.0,), (0.5,)] and (tmp_path / "a.png").stat().st_size > 5000


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


def test_several_validations_in_an_epoch_are_spread_over_it(tmp_path, monkeypatch):
    calls = []
    monkeypatch.setattr(Axes, "plot", lambda axes, epochs, values, **style: calls.append((epochs, values)))
    monkeypatch.setattr(Axes, "legend", lambda axes: None)
    rows = [{"epoch": str(number // 2), "val_loss": str(number), "val_accuracy": ".5"} for number in range(4)]
    draw_learning_curves(rows, tmp_path / "a.png")
    assert calls[0] == ((0.5, 1.0, 1.5, 2.0), (0.0, 1.0, 2.0, 3.0))
