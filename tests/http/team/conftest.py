from __future__ import annotations

import os
from importlib.util import find_spec

if (find_spec("authlib") is None or find_spec("psycopg") is None) and not os.environ.get("CI"):
    collect_ignore_glob = ["test_*.py"]  # they import what the extra `team` installs
