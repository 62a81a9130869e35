import logging

# Without `logs.setup` (a command, a Python program) problems are in the results, not on stderr.
logging.getLogger("counsel").addHandler(logging.NullHandler())
