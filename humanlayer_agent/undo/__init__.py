"""The files that commands replace in a project: which would be lost, where they are kept, and how they come back.

Knows nothing of policies, approvals or agents: what a command may change is handed in.
"""
