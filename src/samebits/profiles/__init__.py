"""Profiles: probes put together into a recipe, proved by replay."""

from samebits.profiles.profiling import USUAL_PROBLEM, profile
from samebits.profiles.recipe_search import search_recipe
from samebits.profiles.stages import SearchResult

__all__ = ["USUAL_PROBLEM", "SearchResult", "profile", "search_recipe"]
