"""Runs that are finished at once, with cards of given accuracies."""

import json

import yaml


def write_run(folder, accuracy=None, *, parameters=1000, minutes=1.5, test_sum=None, **metrics):
    """A run's folder; finished if it has an accuracy."""
    folder.mkdir(parents=True, exist_ok=True)
    config = {"seed_everything": int(folder.name.partition("-")[2]), "data": {}, "model": {}, "trainer": {}}
    (folder / "config.yaml").write_text(yaml.safe_dump(config))
    if accuracy is not None:
        (folder / "model").mkdir()
        scores = {"test_accuracy": accuracy, "interval_95": [accuracy - 0.02, accuracy + 0.01], "clips": 100, **metrics}
        card = {"metrics": scores, "parameters": parameters, "minutes": minutes, "commit": "c0ffee", "hardware": "CPU"}
        splits = {"splits": {"test": {"items": 100, "sha256": test_sum}}} if test_sum else {}
        (folder / "model/card.json").write_text(json.dumps(card | splits))


def write_progress(run, *values, name="val_accuracy"):
    """A `metrics.csv` with these values after each epoch."""
    rows = [f"{epoch},{10 * epoch + 9},{value}" for epoch, value in enumerate(values)]
    (run / "metrics.csv").write_text("\n".join([f"epoch,step,{name}", "0,4,", *rows]) + "\n")
