"""Policies: rules in YAML, and the Director that applies them."""
