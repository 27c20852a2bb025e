"""Profiles: probes put together into a recipe, proved by replay."""

from samebits.profiles.profile import USUAL_PROBLEM, profile
from samebits.profiles.recipe_search import SearchResult, search_recipe

__all__ = ["USUAL_PROBLEM", "SearchResult", "profile", "search_recipe"]
