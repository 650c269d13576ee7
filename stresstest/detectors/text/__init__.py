"""From tokens to text: segments, prose, words and their normal forms."""
