"""The declared function, computed with less or in another order: recipes, predicted bit for bit."""
