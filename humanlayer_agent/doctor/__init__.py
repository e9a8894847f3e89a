"""The checks of `hla doctor`: what works here, what does not, and how to mend it. They change nothing."""
