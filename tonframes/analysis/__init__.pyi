from .gas import price_of, undo_gas_exchange

__all__ = ["price_of", "undo_gas_exchange"]
