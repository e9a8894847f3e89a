"""Keeps secrets out of what is written down or sent; `redactor` has the one class that does it."""
