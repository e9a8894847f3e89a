"""What works here, what does not, and how to mend it: one list of named checks, which change nothing."""
