"""What a machine says of itself -> Cluster: its PCIe tree, its NVLinks and its NICs, alone or joined with others."""
