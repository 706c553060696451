"""What the service says: its values, records and tables, decoded and encoded without a loss."""
