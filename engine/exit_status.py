"""How a process ended, in words."""

import signal


def how_it_ended(code: int) -> str:
    """`exit code 3`, or for a process ended by a signal (a negative code): `killed (SIGKILL; out of memory?)`."""
    if code >= 0:
        return f"exit code {code}"
    return f"killed ({signal_name(-code)}{'; out of memory?' * (-code == signal.SIGKILL)})"


def signal_name(number: int) -> str:
    """The name of a signal: `SIGTERM`."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
