"""The login of a Kafka client in Java's form: `…PlainLoginModule required username="…" password="…";`."""

import re

_TOKEN = re.compile(
    r"""\s*(?:(?P<quoted>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')|(?P<word>[\w$.-]+)|(?P<sign>[=;]))""", re.DOTALL
)
_ESCAPED = re.compile(r"\\([0-3]?[0-7]{1,2}|.)", re.DOTALL)
_LETTERS = {"a": "\a", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t", "v": "\v"}
_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM": "org.apache.kafka.common.security.scram.ScramLoginModule",
}


def parse_login(text: str) -> tuple[str, str]:
    """User name and password; ValueError, without the secrets, if the text is not a login with both."""
    match _tokens(text):
        case [module, _, *options, ";"] if options[1::3] == ["="] * (len(options) // 3) and len(options) % 3 == 0:
            pass
        case _:
            raise ValueError("""is not '…LoginModule required username="…" password="…";'""")
    if not module.endswith(tuple(name.rpartition(".")[2] for name in _MODULES.values())):
        raise ValueError("has an unsupported login module; use PlainLoginModule or ScramLoginModule")
    found = {options[at]: options[at + 2] for at in range(0, len(options), 3)}
    if found.get("tokenauth", "").lower() == "true":
        raise ValueError("asks for a delegation token, which is not supported")
    for name in ("username", "password"):
        if not found.get(name):
            raise ValueError(f"has no {name}")
    return found["username"], found["password"]


def format_login(mechanism: str, user: str, password: str) -> str:
    """The login for a mechanism."""
    module = _MODULES[mechanism.partition("-")[0]]
    return f"{module} required username={_quoted(user)} password={_quoted(password)};"


def _tokens(text: str) -> list[str]:
    tokens: list[str] = []
    at, text = 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            return []
        quoted = found["quoted"]
        tokens.append(found[0].strip() if quoted is None else _ESCAPED.sub(_unescaped, quoted[1:-1]))
        at = found.end()
    return tokens


def _unescaped(found: re.Match[str]) -> str:
    escape = found[1]
    return chr(int(escape, 8)) if escape[0] in "01234567" else _LETTERS.get(escape, escape)


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r") + '"'
