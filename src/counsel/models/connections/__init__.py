"""HTTP to the vendors: connections, requests, responses, streams."""
