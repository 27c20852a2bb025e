"""Profiles: probes put together into a recipe, proved by replay."""

from samebits.engines.recipe_search.recipe_search import search_recipe
from samebits.engines.recipe_search.stages import SearchResult
from samebits.questions.profile.profiling import USUAL_PROBLEM, profile

__all__ = ["USUAL_PROBLEM", "SearchResult", "profile", "search_recipe"]
