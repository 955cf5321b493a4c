"""Where it meets Locust: user, events, listener, options, lifecycle, web UI."""
