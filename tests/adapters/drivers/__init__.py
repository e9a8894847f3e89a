"""Each framework as the tests drive it, with its real library and a model that follows a script."""
