"""Reads git's files without git: its index, references and objects, and which files a command of git's would change.

Who wrote a repository may wish us ill, so every look is bounded, and what is damaged, too large or of a form that is
not read here is `NotKnown`. Nothing of it is run: no filter, no hook, no helper that a setting names.
"""
