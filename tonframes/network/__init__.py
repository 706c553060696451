"""What the network defines outside of its transactions: prices, and the meanings of codes."""
