"""The store on PostgreSQL, for several servers. Loaded only when a database URL is set: `pip install counsel[team]`."""
