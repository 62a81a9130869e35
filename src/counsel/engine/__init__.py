import logging

# Whoever uses the engine without `logs.setup` (a command, a Python program) hears of it by results, not on stderr.
logging.getLogger("counsel").addHandler(logging.NullHandler())
