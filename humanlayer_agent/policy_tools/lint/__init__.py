"""The linter of policies: what is wrong with the rules, each finding with a command that shows it.

One module a check: its test and its documentation page (docs/lint/) have the same name. A check tries the policy on
commands (examples of the rules, of the command catalog, and commands made from the rule's clauses) and proves from the
conditions what no number of commands can show. What can be neither shown nor ruled out is reported as unknown.
"""

from humanlayer_agent.policy_tools.lint.finding import Check, Finding, Place, Witness
from humanlayer_agent.policy_tools.lint.linter import CHECKS, lint, lint_all, lint_file, lint_files

__all__ = ["CHECKS", "Check", "Finding", "Place", "Witness", "lint", "lint_all", "lint_file", "lint_files"]
