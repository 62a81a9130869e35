"""The front, which starts the daemon of `fake_daemon.py`. COUNSEL_TEST_VERSION sets the release of both."""

from __future__ import annotations

import os
import sys
from pathlib import Path

sys.path[:0] = [str(Path(__file__).parents[2] / "src")]

import counsel  # noqa: E402 - the path comes first
from counsel.front import launcher, main, relay  # noqa: E402 - the path comes first

launcher.COMMAND = [sys.executable, str(Path(__file__).parent / "fake_daemon.py")]
relay.HELLO_TIMEOUT = float(os.environ.get("COUNSEL_TEST_PATIENCE", relay.HELLO_TIMEOUT))
vars(launcher)["__version__"] = os.environ.get("COUNSEL_TEST_VERSION", counsel.__version__)
sys.exit(main.main(sys.argv[1:]))
