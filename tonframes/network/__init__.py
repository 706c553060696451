"""What the network defines outside of its transactions: prices, and the meanings of codes.

The modules::

    pricing       what gas and messages cost, computed from `prices`, the history of mainnet
    lookup        the name of a code, of a column of codes, or within a frame
    opcodes       the first 32 bits of message bodies
    exit_codes    how compute phases ended
    result_codes  how action phases ended
    contracts     names of contracts, by the hash of their code
"""
