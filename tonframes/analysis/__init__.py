"""What the tables mean: fees, gas, failures, traces, storage, activity. Frames in, frames out.

The modules of what users call::

    fees          what transactions cost              failures      why they failed
    gas           how much gas they used              traces        what traces cost
    storage       what accounts pay for storage       activity      transactions and money by time
    audit         whether fees and balances add up    prices        what transactions paid for gas
    operations    one name for what a message does    names         names for addresses
    units         amounts in TON                      money         amounts in a currency
    jettons       amounts of jettons

and of what these share, from the frames of users down to rules::

    intake        frames of users are checked, results are frames of the same engine
    doubts        warnings of input that would give a wrong number
    grouping      groups by columns, by message, by operation, or by time
    sums          sums of groups, exact on every engine
    outcomes      where a transaction failed, and by which code
    trees         how deep traces are
    states        the size of code and data of accounts
    currency      prices of 1 TON in a currency, and the amounts that they apply to
    periods       hours, days, weeks and months in UTC
    phases        rules about the phases of a transaction
    expressions   expressions that several helpers share
    engines       how a step runs on each engine
    results       the columns of each result; `declaration` is the class for them
"""
