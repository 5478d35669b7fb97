"""The description of a machine -> Cluster: its PCIe tree, NVLinks and NICs, alone or joined with other machines."""
