"""The supervision of agents: adapters that put a Gate between an agent and its shell."""
