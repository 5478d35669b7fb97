"""What a timeline or a plan is measured against: metrics, curves, statistics, the abstract network, bounds."""
