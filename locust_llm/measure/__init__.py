"""What bytes mean: records, timelines, metrics, histograms and run statistics. Imports nothing of ours."""
