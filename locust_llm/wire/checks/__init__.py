"""Checks of one target, in stages: one list that the preflight of a test and `locust-llm doctor` both go through."""
