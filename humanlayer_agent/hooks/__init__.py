"""Hooks of coding agents: the tool runs `hla hook NAME` before each of its calls, and does what that answers.

client   what the tool starts: light, passes the question on, and turns everything that goes wrong into a refusal
server   a process in the background that has the policy and the store open; started by the first question
judge    answers: by the policy, the Gate, and where so configured a human
permits  confined commands: what a coding agent was handed in the place of its own, until it has used it
permit_use  what its shell starts then, which has the judged command run
obstacles  what in its settings keeps commands from being replaced
coding_agents  the one table of coding agents: the form of their hooks, where their settings are, what they can't do
questions  what their questions say, and how they are answered
hook_settings  our hook in their settings
"""
