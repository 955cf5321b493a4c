"""`python -m locust_llm.cli`."""

import sys

from locust_llm.cli import main

if __name__ == "__main__":
    sys.exit(main())
