"""What tracers and gateways keep of a call: one adapter a product, one for OpenTelemetry."""
