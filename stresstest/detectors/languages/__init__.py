"""What is known of each language: one file a language, and the words that tell them apart."""
