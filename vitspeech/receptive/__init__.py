"""What a model sees: one measure of the receptive field for attention and convolution.

from vitspeech.receptive import Layer, effective_fields, extent

fields = effective_fields(network, pictures, [Layer("layer2"), Layer("blocks.3", "tokens", class_tokens=1)])
extent(fields[0].cumulative)["radius_90"]                      # px, with its 95 % interval
fields[0].cumulative.theoretical                               # what it could see
"""

from vitspeech.receptive.attention_maps import HeadMeasures, head_measures
from vitspeech.receptive.effective import Field, LayerFields, effective_fields
from vitspeech.receptive.extent import Estimate, extent, extent_in_frequency, extent_in_time
from vitspeech.receptive.functional import VisibleAccuracy, visible_accuracy
from vitspeech.receptive.layers import Layer
from vitspeech.receptive.relevance import relevance, rollout, token_relevance
from vitspeech.receptive.written_out import NotRecomputable, written_out

__all__ = [
    "Estimate",
    "Field",
    "HeadMeasures",
    "Layer",
    "LayerFields",
    "NotRecomputable",
    "VisibleAccuracy",
    "effective_fields",
    "extent",
    "extent_in_frequency",
    "extent_in_time",
    "head_measures",
    "relevance",
    "rollout",
    "token_relevance",
    "visible_accuracy",
    "written_out",
]
