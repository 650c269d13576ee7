"""GPU readings, from NVML on this machine or from an exporter."""
