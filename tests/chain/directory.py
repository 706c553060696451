"""The address book and the metadata that the service adds to its answers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from chain import contracts
from chain.accounts import digest
from tonframes.addresses import to_friendly

if TYPE_CHECKING:
    from collections.abc import Iterable

    from chain.accounts import Account


def address_book(accounts: Iterable[Account]) -> dict[str, Any]:
    """Return the address book; wallets and accounts without code are shown as not bounceable."""
    book = {}
    for account in accounts:
        active = account.status == "active"
        bounceable = active and account.contract not in (contracts.WALLET, contracts.WALLET_V5)
        book[account.address] = {
            "user_friendly": to_friendly(account.address, bounceable=bounceable),
            "domain": account.domain,
            "interfaces": list(account.interfaces) if active else None,
        }
    return book


def mentioned(transactions: list[dict[str, Any]]) -> list[str]:
    """List the distinct addresses in transactions and their messages."""
    found: dict[str | None, None] = {}
    for row in transactions:
        found[row["account"]] = None
        for message in (*row["out_msgs"], row["in_msg"] or {}):
            found[message.get("source")] = found[message.get("destination")] = None
    return [address for address in found if address is not None]


def metadata(accounts: Iterable[Account]) -> dict[str, Any]:
    """Return the metadata of those accounts that are tokens."""
    tokens = {account.address: _token(account) for account in accounts}
    return {
        address: {"is_indexed": True, "token_info": [token]}
        for address, token in tokens.items()
        if token
    }


def _token(account: Account) -> dict[str, Any] | None:
    memory, contract = account.memory, account.contract
    if account.status != "active":
        return None
    number = digest(account.address)[:4]
    if contract is contracts.JETTON_MASTER:
        return {
            "valid": True,
            "type": "jetton_masters",
            "name": f"Made-up Dollar {number}",
            "symbol": "MUD₮",
            "description": "A jetton of the synthetic chain. <b>Worth nothing</b>",
            "image": "https://example.org/jetton.png",
            "extra": {"decimals": "6", "uri": "https://example.org/jetton.json"},
        }
    if contract is contracts.JETTON_WALLET:
        extra = {
            "balance": str(memory["balance"]),
            "jetton": memory["master"],
            "owner": memory["owner"],
        }
        return {"valid": True, "type": "jetton_wallets", "extra": extra}
    if contract is contracts.NFT_ITEM:
        return {
            "valid": True,
            "type": "nft_items",
            "nft_index": str(memory["index"]),
            "name": f"Picture {memory['index']}",
            "image": f"https://example.org/{memory['index']}.png",
            "extra": {"collection": memory["collection"], "owner": memory["owner"]},
        }
    if contract is contracts.NFT_COLLECTION:
        extra = {"uri": "https://example.org/collection.json"}
        return {"valid": True, "type": "nft_collections", "name": "Pictures", "extra": extra}
    return None
