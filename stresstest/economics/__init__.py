"""What a failure costs. Pure: spans of requests in, ratios and accounts out."""
