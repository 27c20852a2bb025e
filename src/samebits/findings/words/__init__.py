"""Words that several findings share: orders of addition, places in a result, recipes, sides."""
