"""Put a function behind a human: each call is shown with all its arguments, and runs only when it is approved.

Run it:  python examples/gate_a_function.py
"""

from humanlayer_agent import ActionDenied, require_approval


@require_approval
def transfer(account: str, amount: int, *, note: str = "") -> str:
    """Something that should not happen by accident."""
    return f"sent {amount} to {account}"


def main() -> None:
    for account, amount in (("DE02 1234", 300), ("DE02 9999", 70_000)):
        try:
            print(transfer(account, amount, note="invoice"))
        except ActionDenied as denied:
            print(f"not sent: {denied}")


if __name__ == "__main__":
    main()
