"""How much is measured of which layers, and about how long it takes.

The time is that of one pass through each network, times the number of passes. It weighs the progress bar, and chooses
the number of inputs that fit into a given time.
"""

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

from torch import Tensor, nn

from vitspeech.errors import InputError
from vitspeech.receptive.fields.effective import effective_fields, passes
from vitspeech.receptive.fields.layers import Layer, default_layers, evenly_spaced, infer_layer
from vitspeech.receptive.sample import Sample
from vitspeech.receptive.subjects import Subject

MOST_LAYERS = 8  # of a network, if they are not named
LARGEST_FACTOR = 16
TIMED = 4  # inputs of the pass that is timed
OCCLUDED = 30  # passes for the accuracy against what is visible


@dataclass(frozen=True)
class Plan:
    """The amount of measurement."""

    inputs: int = 200  # number of inputs for the fields
    answers: int = 500  # number of inputs for the accuracy against the visible window
    # input sizes, relative to the size a model was made for; the report is about the first
    factors: tuple[float, ...] = (1.0, 1.5)
    # names of the layers to measure; `None` measures up to `MOST_LAYERS` of `default_layers`
    layers: Sequence[str] | None = None

    def __post_init__(self) -> None:
        fewest = min(self.inputs, self.answers)
        if fewest < 2:
            raise InputError(f"{fewest} input: an estimate with an interval needs at least 2")
        if not self.factors or not all(0 < factor <= LARGEST_FACTOR for factor in self.factors):
            raise InputError(f"factors={self.factors} are not sizes above 0 and at most {LARGEST_FACTOR}")

    def states(self, subject: Subject) -> list[tuple[bool, float]]:
        """Each state of a model to measure as (trained, size), in the order of `Result.states`."""
        sizes = [factor * subject.size for factor in self.factors]
        sizes = sizes if subject.takes_audio else [round(size) for size in sizes]
        if not subject.trained:
            return [(False, size) for size in sizes]
        return [*((True, size) for size in sizes), (False, sizes[0])]

    def layers_of(self, subject: Subject, network: nn.Module, inputs: Tensor) -> list[Layer]:
        """The layers of a network to measure."""
        if self.layers is None:
            return evenly_spaced(default_layers(network, inputs), MOST_LAYERS)
        return [infer_layer(network, name, inputs, in_time=subject.takes_audio) for name in self.layers]


@dataclass(frozen=True)
class Cost:
    """The estimated seconds for each input of a model."""

    states: list[float]  # for the fields in each state
    visible: float  # for the accuracy against what is visible

    def total(self, plan: Plan) -> float:
        """The seconds for all inputs."""
        return sum(self.states) * plan.inputs + self.visible * plan.answers


def estimate_cost(subject: Subject, sample: Sample, plan: Plan) -> Cost:
    """Time one pass of a model at its first size; other sizes are taken to cost in proportion to their inputs."""
    states = plan.states(subject)
    _, size = states[0]
    inputs = subject.inputs(sample.first(TIMED).raw, size)
    try:
        network = subject.network(trained=False, size=size)
        layers = plan.layers_of(subject, network, inputs)
        for _ in range(2):  # the first is slower
            start = time.perf_counter()
            effective_fields(network, inputs, layers[-1:], source=subject.source, probe_units=1, cumulative_only=True)
            seconds = (time.perf_counter() - start) / 2 / len(inputs)  # of a pass, forward or backward
    except (ValueError, AssertionError, RuntimeError):  # the measurement will say what is wrong
        return Cost([0.0] * len(states), 0.0)
    power = 1 if subject.takes_audio else 2
    work = [sum(passes(len(layers), cumulative_only=bool(number))) for number in range(len(states))]
    costs = [seconds * each * (s / size) ** power for each, (_, s) in zip(work, states, strict=True)]
    return Cost(costs, seconds * OCCLUDED if subject.trained and subject.predicts_label else 0.0)


def plan_within(minutes: float, subjects: Sequence[Subject], sample: Sample, plan: Plan) -> Plan:
    """The plan with as many inputs as fit into that time, at most those of the sample."""
    costs = [estimate_cost(subject, sample, plan) for subject in subjects]
    share = 60 * minutes / max(sum(cost.total(plan) for cost in costs), 1e-9)
    inputs, answers = (min(int(share * count), len(sample.raw)) for count in (plan.inputs, plan.answers))
    if inputs < 2:
        needed = time_text(2 * minutes / (share * plan.inputs))
        raise InputError(f"--minutes {minutes:g}: two inputs take about {needed}")
    return replace(plan, inputs=inputs, answers=answers)


def time_text(minutes: float) -> str:
    """A time in minutes, or in seconds if it is shorter."""
    return f"{minutes:.0f} min" if 60 * minutes >= 59.5 else f"{60 * minutes:.2g} s"
