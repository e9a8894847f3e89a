"""Kleene's three values: `all of` is min, `any of` is max, `not` is YES - x."""

NO, MAYBE, YES = 0, 1, 2
