"""What the text of a command would run, and what each of its commands does."""
