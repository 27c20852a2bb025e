"""What an engine may have done: suspects, each a prediction of the result it would have returned."""

from samebits.suspects.arithmetic import (
    from_recipe,
    list_operand_recipes,
    list_operand_suspects,
    list_order_suspects,
    list_recipe_suspects,
    list_transform_suspects,
)
from samebits.suspects.finishing import list_finishing_suspects, list_fitted_suspects
from samebits.suspects.geometry import list_geometry_suspects
from samebits.suspects.layout import list_layout_suspects
from samebits.suspects.study import Sample, Study
from samebits.suspects.suspect import Suspect

__all__ = [
    "Sample",
    "Study",
    "Suspect",
    "from_recipe",
    "list_finishing_suspects",
    "list_fitted_suspects",
    "list_geometry_suspects",
    "list_layout_suspects",
    "list_operand_recipes",
    "list_operand_suspects",
    "list_order_suspects",
    "list_recipe_suspects",
    "list_transform_suspects",
]
