"""What the network fixes, and no table says: prices, and the meanings of codes."""
