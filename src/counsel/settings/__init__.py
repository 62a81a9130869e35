"""All settings as one typed object, with the source of each value.

The environment wins over COUNSEL_HOME/.env, which wins over COUNSEL_HOME/config.toml, which wins over the default.
Nothing is ever read from a project's folder: a hostile repository must not redirect a key or widen what may be read. A
bad value is reported in `problems` and its default is used: a bad line never prevents a start.
"""

from counsel.settings.loading import default_home, load
from counsel.settings.table import TABLES, Settings, rows

__all__ = ["TABLES", "Settings", "default_home", "load", "rows"]
