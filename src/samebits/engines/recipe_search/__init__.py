"""Probes put together into a recipe, stage by stage, proved by replay."""
