"""The data format of the service: values, records and tables, decoded and encoded without loss.

The modules, from answers down to single values::

    pages         answers become tables
    encode        tables become answers again
    transactions  the transactions of an answer, a hundred at a time
    tolerant      answers that the strict reading has refused
    tables        Arrow tables by name: fitted to the schema, sorted, joined
    codec         structs become columns, and columns structs
    schema        the records and the tables: a line for each field
    record        the classes that `schema` is written with
    extra         what the schema has no place for
    kinds         how a value is written in JSON and in a column
    dtypes        the pandas dtype of each Arrow type
"""
