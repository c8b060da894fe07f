"""The service over HTTP: routes, what is asked of requests, and how they are refused."""
