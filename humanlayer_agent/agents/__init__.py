"""How agents are supervised: adapters that put a Gate between an agent and its shell."""
