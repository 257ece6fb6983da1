"""Receptive fields: which part of its input a model uses, by one measure for attention and convolution.

    from vitspeech.receptive import Layer, effective_fields, extent

    layers = [Layer("layer2"), Layer("layer4")]          # modules by name; transformers: Layer("blocks.3", "tokens", 1)
    fields = effective_fields(network, images, layers)
    extent(fields[-1].cumulative)["radius_90"]           # radius of 90 % of the energy in px, with a 95 % interval
    extent(fields[-1].cumulative.uniform)["radius_90"]   # the same of a uniform field, for comparison
    fields[-1].cumulative.theoretical                    # the theoretical receptive field

- `compare.py` measures several models on the same inputs; `subjects.py` loads them, `sample.py` the inputs, `plan.py`
  says how much is measured and how long it takes.
- `fields/`: how far can a unit see (theoretical receptive field), and how far does it see (effective receptive field;
  Luo et al. 2016, arXiv:1701.04128)?
- `heads/`: how far does each head attend (attention distance), and which tokens reach the output (attention rollout)?
- `occlusion.py`: how large a part of the input does a model need to keep its accuracy?
- `differences.py`: paired differences between models and between states.
- `initialization.py`: how are untrained networks measured whose residual branches start at zero?
- `report/` draws all figures and writes page, tables and JSON.
"""

from vitspeech.metrics.intervals import Estimate
from vitspeech.receptive.fields.effective import LayerFields, effective_fields
from vitspeech.receptive.fields.layer_numbers import effective_field_ms
from vitspeech.receptive.fields.layers import Layer
from vitspeech.receptive.fields.measures import Field, extent, extent_in_frequency, extent_in_time
from vitspeech.receptive.heads.measures import HeadMeasures, head_measures
from vitspeech.receptive.heads.relevance import relevance, rollout, token_relevance
from vitspeech.receptive.heads.weights import NotRecomputable, attention_weights
from vitspeech.receptive.occlusion import VisibleAccuracy, visible_accuracy

__all__ = [
    "Estimate",
    "Field",
    "HeadMeasures",
    "Layer",
    "LayerFields",
    "NotRecomputable",
    "VisibleAccuracy",
    "attention_weights",
    "effective_field_ms",
    "effective_fields",
    "extent",
    "extent_in_frequency",
    "extent_in_time",
    "head_measures",
    "relevance",
    "rollout",
    "token_relevance",
    "visible_accuracy",
]
