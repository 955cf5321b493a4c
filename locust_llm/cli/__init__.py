"""The `locust-llm` command, one file per subcommand."""
