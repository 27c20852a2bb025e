"""Profiles: probes put together into a recipe, proved by replay."""
