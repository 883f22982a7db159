"""Python with the core of this tree, built anew: as it is shipped, or as one of the other kinds of instrumented.py.

python tools/rebuilt.py plain -m pytest tests/test_interrupt.py
"""

import os
import sys

from instrumented import instrumented

python = instrumented(sys.argv[1])
os.execv(python, [str(python), *sys.argv[2:]])
