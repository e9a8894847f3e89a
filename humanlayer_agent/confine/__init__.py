"""The reach of a confined command: a Confinement, the backend that enforces it, and the proof that it holds here.

Knows nothing of policies, approvals or agents: what is to be reachable is handed in.
"""
