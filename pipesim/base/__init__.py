"""What has nothing to do with this field: errors, units, files, texts that name functions, tables, kernels."""
