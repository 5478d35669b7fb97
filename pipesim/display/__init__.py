"""Results as text, figures and files for other tools; nothing here computes a result."""
