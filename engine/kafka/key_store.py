"""Java's key stores (PKCS #12, JKS) and sealed keys as PEM, by keytool and openssl, which get passwords by environment.

openssl is asked for what keytool cannot do; where it is not there, a line says how to do without.
"""

import os
import re
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path

from ..errors import UsageError
from ..java import find_java

_STORE, _KEY, _OURS = "WMTOP_STORE_PASSWORD", "WMTOP_KEY_PASSWORD", "WMTOP_OWN_PASSWORD"
_KEY_ENTRY = re.compile(r"^(?P<alias>.+?), .*PrivateKeyEntry", re.MULTILINE)


def certificates_in(store: Path, kind: str | None, password: str | None) -> str:
    """The trusted certificates of a store, as PEM; `kind` None: whatever it is."""
    said = _keytool("ssl.truststore", store, ["-list", "-rfc", *_opening(store, kind, password)], {_STORE: password})
    if "-----BEGIN" not in said:
        hint = "" if password else ": set ssl.truststore.password"
        raise UsageError(f"ssl.truststore.location: {store} shows no certificate{hint}")
    return said


def key_in(store: Path, kind: str | None, password: str | None, key_password: str | None) -> str:
    """The certificate, its chain and its key of the first entry of a store that has a key, as PEM, not encrypted."""
    if password is None:
        raise UsageError(f"ssl.keystore.password is missing: {store} needs it")
    openssl = shutil.which("openssl")
    if openssl is None:
        raise UsageError(
            f"ssl.keystore.location: {store} is read with openssl, which is not there: install it, or give PEM files "
            "with ssl.certificate.location and ssl.key.location"
        )
    environment = {_STORE: password, _KEY: key_password or password, _OURS: secrets.token_hex(16)}
    opening = _opening(store, kind, password)
    entry = _KEY_ENTRY.search(_keytool("ssl.keystore", store, ["-list", *opening], environment))
    if entry is None:
        raise UsageError(f"ssl.keystore.location: {store} has no entry with a key")
    with tempfile.TemporaryDirectory(prefix="wmtop-") as directory:  # mode 0700
        copy = Path(directory, "store.p12")
        _keytool("ssl.keystore", store, _copying(store, kind, entry["alias"], copy), environment)
        own = [openssl, "pkcs12", "-in", str(copy), "-passin", f"env:{_OURS}"]
        parts = (["-clcerts", "-nodes"], ["-cacerts", "-nokeys"])
        return "".join(_run("ssl.keystore", store, [*own, *part], environment) for part in parts)


def plain_key(key: str, password: str | None) -> str | None:
    """A PEM key as PKCS #8 without a password; None where there is no openssl, ValueError where it does not open."""
    openssl = shutil.which("openssl")
    if openssl is None:
        return None
    done = subprocess.run(
        [openssl, "pkey", "-passin", f"env:{_KEY}"],
        env={**os.environ, _KEY: password or ""},
        input=key,
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        raise ValueError
    return done.stdout


def _opening(store: Path, kind: str | None, password: str | None) -> list[str]:
    options = ["-keystore", str(store)]
    options += ["-storetype", kind] if kind else []
    return options + (["-storepass:env", _STORE] if password else [])


def _copying(store: Path, kind: str | None, alias: str, copy: Path) -> list[str]:
    options = ["-importkeystore", "-noprompt", "-srckeystore", str(store), "-srcstorepass:env", _STORE]
    options += ["-srcstoretype", kind] if kind else []
    options += ["-srcalias", alias, "-srckeypass:env", _KEY]
    options += ["-destkeystore", str(copy), "-deststoretype", "PKCS12"]
    return [*options, "-deststorepass:env", _OURS, "-destkeypass:env", _OURS]


def _keytool(name: str, store: Path, options: list[str], environment: Mapping[str, str | None]) -> str:
    keytool = find_java().home / "bin" / "keytool"
    return _run(name, store, [str(keytool), "-J-Duser.language=en", *options], environment)


def _run(name: str, store: Path, command: list[str], environment: Mapping[str, str | None]) -> str:
    given = {variable: value for variable, value in environment.items() if value is not None}
    done = subprocess.run(
        command,
        env={**os.environ, **given},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode:
        lines = [line.strip() for line in (done.stdout + done.stderr).splitlines() if line.strip()]
        reason = lines[0].removeprefix("keytool error: ").rpartition("Exception: ")[2] if lines else "it says nothing"
        raise UsageError(f"{name}.location: {store} does not open: {reason}; check {name}.password and {name}.type")
    return done.stdout
