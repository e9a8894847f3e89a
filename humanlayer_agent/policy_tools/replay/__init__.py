"""Recorded runs judged again: what a policy would have said, row by row. Nothing is executed, and nothing is logged.

`formats` finds the logs and the reader of each; a reader gives `steps`; `engine` judges them; `figures` counts.
"""
