"""Python with the core of this tree, built anew as it is shipped.

python tools/rebuilt.py -m pytest tests/test_interrupt.py
"""

import os
import sys

from instrumented import instrumented

python = instrumented("plain")
os.execv(python, [str(python), *sys.argv[1:]])
