"""What the tables mean: fees, gas, failures, traces, storage, activity. Frames in, frames out.

`undo_gas_exchange` and `price_of` are public here; the other functions for users are in `tonframes`
itself. The modules of what users call::

    fees          what transactions cost              failures      why they failed
    gas           how much gas they used              traces        what traces cost
    storage       what accounts pay for storage       activity      transactions and money by time
    audit         whether fees and balances add up    jettons       amounts of jettons
    operations    one name for what a message does    names         names for addresses
    units         amounts in TON                      money         amounts in a currency

and what these share, from the frames of users down to rules::

    intake        frames of users are checked, results are frames of the same engine
    doubts        warnings of input that would give a wrong number
    grouping      what the summaries have in common: groups, prices, the order of the result
    sums          sums of groups, exact on every engine
    periods       hours, days, weeks and months in UTC
    engines       how a step runs on each engine, and expressions
    results       the columns of each result
"""

import lazy_loader as _lazy_loader

__getattr__, __dir__, __all__ = _lazy_loader.attach_stub(__name__, __file__)
