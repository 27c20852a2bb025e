"""What can have happened: families of mechanisms, each with its predictions or signs, and the search among them."""
