"""General code that knows nothing about training: errors, units, files, tables, look-ups by name, kernels."""
