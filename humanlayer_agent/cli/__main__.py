"""`python -m humanlayer_agent.cli`: the same program as `hla`."""

import sys

from humanlayer_agent.cli import main

if __name__ == "__main__":
    sys.exit(main())
