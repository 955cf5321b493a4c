"""The embedded engine: a simulated continuous-batching server. Imports nothing of ours."""
