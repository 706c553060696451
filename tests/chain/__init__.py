"""A synthetic chain that follows the rules of the real one, for tests, samples and benchmarks.

`synthetic_blocks` makes consecutive masterchain blocks as the deployed service would answer;
`Chain` also shows the states of the accounts after each of them. `life.Life` makes the histories of
some accounts over three months, without the blocks between. The same seed makes the same chain. Its
network has the id -217, which no real network has (mainnet is -239, testnet -3), so no store mixes
it with real data.

These rules hold exactly:

- fees: the identity of `total_fees`; the split of forwarding fees, computed from the real cells of
  each message; the price of gas and the gas that a value buys; fines, bounces, storage;
- money: the balance of an account is its old balance, plus what it received, minus what it sent
  and the fees;
- logical time; the chain of the transactions and states of each account; the chain of the blocks
  of each shard through splits and merges; every account is in its shard;
- a message is the same on both ends, and its hashes are the hashes of its cells. Hashes of
  transactions, blocks and states are made up, because these cells are not built.

Prices are those at the time of the chain (`start`), by default those after the change of 2026.

In a `Chain`, every rare case occurs within 120 blocks of the default size, or within a few blocks
of 1000 transactions. Only splits and merges need more blocks (the first split is in block 26, the
first merge in block 74):

- external messages in and out; tick and tock transactions of special accounts, with gas fees and
  gas used exchanged as in today's service (config contract) and not exchanged (elector);
- compute phases skipped for `no_state`, `bad_state`, `no_gas`, `suspended`; failed with exit codes
  of the virtual machine (2, 4, 5, 9, and -14 with `exit_arg`) and of contracts (33, 134, 406, 705,
  707, 709, 65535); COMMIT before a throw, which gives the exit codes 7 and 137 with success;
- wallets v4 and v5; spam, which is messages of a few nanoton that cannot bounce;
- action phases failed with 33, 34, 36, 37 (`no_funds`), 50, with and without a fine; skipped
  actions, which `skipped_actions` counts from September 2024 on, as the node does;
- bounces `ok` and `nofunds`, and the transactions of the senders that receive them;
- accounts deployed from nonexist and from uninit, by internal and external messages; frozen because
  of debt; deleted because of debt or by their own code, ending as `nonexist` or `uninit`; with
  storage debt;
- an empty credit phase, and a missing one; several transactions of one account in one block, where
  the service shows only hashes of the states in between; amounts of 19 digits; masterchain prices
  for the sender or the receiver;
- jetton and NFT transfers; jettons that are sold to an exchange; comments with emoji, markup and
  formulas, in every form of `decoded`; bodies without opcode.

The modules, from blocks down to bodies::

    blocks        its blocks, and the states of accounts after each of them
    history       a chain over months, of which only the blocks with transactions are made
    life          three months of an exchange, a jetton, a game and some wallets
    rhythm        when people act
    trading       what users ask their wallets for
    scenarios     common scenarios at random, rare ones in turn
    population    the accounts at the start
    shards        block headers, splits and merges
    directory     the address book and the metadata
    delivery      each message starts a transaction
    execution     the phases of a transaction in order; `run` is its state meanwhile
    actions       the action phase
    phases        the other phases
    exchange      an exchange of TON for a jetton, in two versions
    game          a game of chance
    contracts     how an account reacts to a message
    accounts      balance, contract and debt
    messages      their cells and sizes
    bodies        the cells of their bodies
    cells         cells and bags of cells are written
    pricing       fees for gas, forwarding and storage

Not included: IHR, extra currencies, libraries, split and merge transactions, key blocks,
unfreezing.
"""

from chain.blocks import Chain, synthetic_blocks

__all__ = ["Chain", "synthetic_blocks"]
