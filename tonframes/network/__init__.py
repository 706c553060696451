"""What the network defines outside of its transactions: prices, and the meanings of codes.

The modules::

    prices        the history of prices of mainnet, and what gas and messages cost by it
    lookup        the name of a code, or of each code of a column
    opcodes       the first 32 bits of message bodies
    exit_codes    how compute phases ended
    result_codes  how action phases ended
    contracts     names of contracts, by the hash of their code
"""

from tonframes.network.prices import forward_fee, gas_bought
from tonframes.network.result_codes import result_code_name

__all__ = ["forward_fee", "gas_bought", "result_code_name"]
