"""What was measured: documents on models, devices, clusters and runs, and the shipped library of them."""
