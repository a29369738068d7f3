"""``python -m tocsin`` is the command ``tocsin``."""

import sys

from tocsin.app.cli import main

sys.exit(main())
