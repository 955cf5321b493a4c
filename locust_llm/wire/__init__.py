"""Bytes: how a request leaves and how its stream comes back."""
