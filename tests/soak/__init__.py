"""What time and bad luck do: killed writers, killed measurements, a week of traffic (`make soak`)."""
