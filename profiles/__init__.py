"""What was measured: documents about models, devices, clusters and measurements, and the shipped library of them."""
