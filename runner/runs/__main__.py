"""`python -m runner.runs`."""

import sys

from runner.runs import main

sys.exit(main())
