"""The data format of the service: values, records and tables, decoded and encoded without loss."""
