"""What a model sees: one measure of the receptive field for attention and convolution.

from vitspeech.receptive import Layer, effective_fields, extent

fields = effective_fields(network, pictures, [Layer("layer2"), Layer("blocks.3", "tokens", class_tokens=1)])
extent(fields[0].cumulative)["radius_90"]                      # px, with its 95 % interval
fields[0].cumulative.theoretical                               # what it could see
"""

from vitspeech.receptive.fields.effective import Field, LayerFields, effective_fields
from vitspeech.receptive.fields.extent import Estimate, extent, extent_in_frequency, extent_in_time
from vitspeech.receptive.fields.layers import Layer
from vitspeech.receptive.heads.measures import HeadMeasures, head_measures
from vitspeech.receptive.heads.relevance import relevance, rollout, token_relevance
from vitspeech.receptive.heads.weights import NotRecomputable, written_out
from vitspeech.receptive.occlusion.accuracy import VisibleAccuracy, visible_accuracy

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
