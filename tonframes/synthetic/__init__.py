"""A made-up chain that obeys the rules of the real one: to test with, to teach with, to time with.

`synthetic_blocks` makes bodies of consecutive masterchain blocks as the deployed service would
answer, `Chain` in addition the states of accounts in between. The same seed makes the same chain.
Its network has the made-up id -217 (mainnet is -239, testnet -3): nothing of it is real, and no
store mixes it with what is.

What holds of every body, exactly:

- fees: the identity of `total_fees`, the split of forwarding fees, computed from the real cells of
  each message, the price of gas and the gas that a value buys, fines, bounces, storage;
- money: an account has what it had, plus what came, less what went and the fees;
- logical time, the chain of each account's transactions and states, the chain of each shard's
  blocks through splits and merges, and every account in its shard;
- a message is the same on both ends, and its hashes are those of its cells. Hashes of transactions,
  blocks and states are made up: these cells are not built.

Prices are those of the chain's time (`start`), by default after the change of April 2026.

Every rare case occurs within 120 blocks of the default size, and within a few of 1000 transactions,
but for splits and merges, which take blocks (first split in block 26, first merge in block 74):

- external messages in and out; tick and tock of special accounts, with gas fees and gas used
  exchanged as today's service shows them (config contract) and not (elector);
- compute phases skipped for `no_state`, `bad_state`, `no_gas`, `suspended`; failed with exit codes
  of the virtual machine (2, 4, 5, 9, and -14 with `exit_arg`), of contracts (33, 134, 406, 705,
  707, 709, 65535); COMMIT before a throw, so that exit code 7 comes with success;
- action phases failed with 33, 34, 36, 37 (`no_funds`), 50, with and without a fine; skipped
  actions;
- bounces `ok` and `nofunds`, and what the sender makes of the bounced message;
- accounts deployed from nothing and from uninit, by internal and external messages; frozen by
  debt; deleted by debt or at their own wish, with `nonexist` or `uninit` at the end; owing storage
  fees;
- an empty credit phase, and none; several transactions of an account in one block, with the states
  between known by hash only; amounts of 19 digits; masterchain prices on either end;
- jetton and NFT transfers, comments with emoji, markup and formulas, in each form of `decoded`;
  bodies without opcode.

Not made: IHR, extra currencies, libraries, split and merge transactions, key blocks, unfreezing.
"""

from tonframes.synthetic.chain import Chain, synthetic_blocks

__all__ = ["Chain", "synthetic_blocks"]
