"""Tools of agents: what a call does, by its name and by what it is given.

catalog  what is known of tools, as data: a file for each coding agent, and for each MCP server that many use
calls    a call as the shell command that does the same, so that it is judged as that; or as a call of which the name is
         known and, perhaps, some of what it does
"""
