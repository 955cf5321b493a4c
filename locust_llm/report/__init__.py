"""How a run is told: CSV, JSON, HTML, Markdown."""
