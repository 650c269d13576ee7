"""What a measured run says: its verdict, its limits, and what a reader must know beside them."""
