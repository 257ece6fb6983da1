"""Learning curves."""

from vitspeech.plots.curves import draw_learning_curves


def curves(figure):
    """The values of each line, and the labels of the axes."""
    lines = [line.get_ydata().tolist() for axes in figure.axes for line in axes.lines]
    return lines, [axes.get_ylabel() for axes in figure.axes]


def test_curves_show_the_error_rate_if_there_is_one_and_else_the_accuracy(tmp_path, figures):
    rows = [{"epoch": "0", "val_loss": "", "val_error_rate": "", "train_loss_epoch": "2"}]
    rows += [{"epoch": str(epoch), "val_loss": "1", "val_error_rate": rate} for epoch, rate in enumerate((".9", "0.0"))]
    draw_learning_curves(rows, tmp_path / "a.png")
    draw_learning_curves([{"epoch": "0", "val_loss": "1", "val_accuracy": ".5"}], tmp_path / "a.png")
    assert curves(figures[0]) == ([[2], [1, 1], [0.9, 0]], ["loss (nats)", "error rate of units"])
    assert curves(figures[1]) == ([[1], [0.5]], ["loss (nats)", "accuracy"])


def test_several_validations_in_an_epoch_are_spread_over_it(tmp_path, figures):
    rows = [{"epoch": str(number // 2), "val_loss": str(number), "val_accuracy": ".5"} for number in range(4)]
    draw_learning_curves(rows, tmp_path / "a.png")
    assert figures[0].axes[0].lines[0].get_xydata().tolist() == [[0.5, 0], [1, 1], [1.5, 2], [2, 3]]
