"""The front, starting the daemon of `fake_daemon.py`. Both are of the release that COUNSEL_TEST_VERSION says."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / "src")]

from counsel.doors import carrier, link, stdio  # noqa: E402 - the path comes first

link.COMMAND = [sys.executable, str(Path(__file__).parent / "fake_daemon.py")]
carrier.PATIENCE = float(os.environ.get("COUNSEL_TEST_PATIENCE", carrier.PATIENCE))
link.__version__ = os.environ.get("COUNSEL_TEST_VERSION", link.__version__)
sys.exit(stdio.main(sys.argv[1:]))
