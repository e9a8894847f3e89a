"""Metamorphic tests of a policy: a command that is spelled in another way must not be judged more mildly.

Every example of a rule is rewritten by transformations that keep what it does; and every example, put where it is
only data, must not be judged more strictly than that place alone.
"""
