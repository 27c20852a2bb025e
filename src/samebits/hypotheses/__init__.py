"""What an engine may have done: hypotheses, each a prediction of the result it would have returned."""

from samebits.hypotheses.altered_operands import list_altered_hypotheses
from samebits.hypotheses.arithmetic import (
    list_operand_hypotheses,
    list_operand_recipes,
    list_order_hypotheses,
    list_recipe_hypotheses,
    list_stored_hypotheses,
    list_transform_hypotheses,
)
from samebits.hypotheses.epilogue import (
    list_epilogue_hypotheses,
    list_fitted_hypotheses,
    list_rounded_bias,
    list_saturation_hypotheses,
)
from samebits.hypotheses.fixed_point import list_fixed_products
from samebits.hypotheses.geometry import list_geometry_hypotheses, list_padding_hypotheses
from samebits.hypotheses.hypothesis import Hypothesis
from samebits.hypotheses.integer_pairs import list_integer_pairs
from samebits.hypotheses.layout import list_layout_hypotheses
from samebits.hypotheses.lost_products import list_lost_products
from samebits.hypotheses.observation import Observation, Sample
from samebits.hypotheses.other_inputs import list_input_hypotheses
from samebits.hypotheses.overlapping_patches import list_overlap_hypotheses
from samebits.hypotheses.products import list_product_hypotheses
from samebits.hypotheses.quantized import list_quantized_hypotheses, list_searched_hypotheses, list_split_hypotheses
from samebits.hypotheses.recipe_hypotheses import from_recipe
from samebits.hypotheses.refitted import list_refitted_hypotheses
from samebits.hypotheses.solved_weights import list_solved_hypotheses
from samebits.hypotheses.stored_sums import list_long_sum_hypotheses
from samebits.hypotheses.tile_seams import list_seam_hypotheses
from samebits.hypotheses.unasked_activations import list_activation_hypotheses, list_scale_hypotheses

__all__ = [
    "Hypothesis",
    "Observation",
    "Sample",
    "from_recipe",
    "list_activation_hypotheses",
    "list_altered_hypotheses",
    "list_epilogue_hypotheses",
    "list_fitted_hypotheses",
    "list_fixed_products",
    "list_geometry_hypotheses",
    "list_input_hypotheses",
    "list_integer_pairs",
    "list_layout_hypotheses",
    "list_long_sum_hypotheses",
    "list_lost_products",
    "list_operand_hypotheses",
    "list_operand_recipes",
    "list_order_hypotheses",
    "list_overlap_hypotheses",
    "list_padding_hypotheses",
    "list_product_hypotheses",
    "list_quantized_hypotheses",
    "list_recipe_hypotheses",
    "list_refitted_hypotheses",
    "list_rounded_bias",
    "list_saturation_hypotheses",
    "list_scale_hypotheses",
    "list_seam_hypotheses",
    "list_searched_hypotheses",
    "list_solved_hypotheses",
    "list_split_hypotheses",
    "list_stored_hypotheses",
    "list_transform_hypotheses",
]
