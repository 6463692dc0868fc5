"""What people have to say of a cluster's security, in its many forms, and what both readers are told of it."""

import os
import re
import ssl
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from wmtop.engine.kafka.client_settings import KafkaConfig, format_login, kafka_config, parse_login
from wmtop.engine.system.errors import RunError, UsageError, first_line
from wmtop.engine.system.java import find_java

from ..refusals import refused
from .certificates import Authority, Issued
from .secured import MARK, no_kafka_variables

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
STORE_PASSWORD, KEY_PASSWORD = f"store {MARK}", f"schlüssel {MARK}"
OPENING = ("-storepass:env", "STORE")
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1)

JKS = pytest.param("JKS", marks=pytest.mark.matrix)
"""Java's old key store, which its keytool converts."""


@pytest.fixture(autouse=True)
def own_environment() -> Iterator[None]:
    with no_kafka_variables():
        yield


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "client.properties"


def config_of(file: Path, text: str) -> KafkaConfig:
    file.write_text(text)
    return kafka_config("there:9092", file)


def resolved(config: KafkaConfig) -> dict[str, str]:
    """What Kafka's Java client makes of the connector's options, but for its timeouts."""
    options = {name: value for name, value in config.for_connector().items() if "imeout" not in name}
    return {n: re.sub(r"^\$\{env:(\w+)\}$", lambda found: os.environ[found[1]], v) for n, v in options.items()}


def login(mechanism: str = "PLAIN", protocol: str = "SASL_PLAINTEXT") -> str:
    return f"security.protocol={protocol}\nsasl.mechanism={mechanism}\nsasl.username=me\nsasl.password=x{MARK}\n"


def test_without_anything_it_is_the_address_and_how_long_to_wait() -> None:
    config = kafka_config("a:1,b:2")
    assert config.for_python() == {"bootstrap_servers": ["a:1", "b:2"]}
    options = config.for_connector()
    assert options.pop("kafka.bootstrap.servers") == "a:1,b:2"
    assert len(options) == 3
    assert set(options.values()) == {"20000"}


@pytest.mark.parametrize(
    "text",
    [
        f'sasl.jaas.config={PLAIN} required username="me" password="a=b;c # d";',
        f"sasl.jaas.config : {PLAIN}   required \\\n    username='me' \\\n    password='a=b;c # d' ;  ",
        f'sasl.jaas.config {PLAIN} required password="a=b;c\\u0020# d" username=me serviceName="kafka";',
        f'sasl.jaas.config=kafkashaded.{PLAIN} required username="me" password="a=b;c \\\\# d";',
        "sasl.username=me\nsasl.password = a=b;c # d",
        "! a comment\n#sasl.username=you\n\n  sasl.username : me\r\nsasl.password:a=b;c # d   \n",
    ],
)
@pytest.mark.parametrize("mechanism", ["sasl.mechanism=PLAIN", "sasl.mechanisms=plain"])
def test_a_log_in_has_many_forms(text: str, mechanism: str, file: Path) -> None:
    config = config_of(file, f"security.protocol=sasl_plaintext\n{mechanism}\n{text}\n")
    assert config.for_python() == {
        "bootstrap_servers": ["there:9092"],
        "security_protocol": "SASL_PLAINTEXT",
        "sasl_mechanism": "PLAIN",
        "sasl_plain_username": "me",
        "sasl_plain_password": "a=b;c # d",
    }
    assert resolved(config) == {
        "kafka.bootstrap.servers": "there:9092",
        "kafka.security.protocol": "SASL_PLAINTEXT",
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.jaas.config": f'{PLAIN} required username="me" password="a=b;c # d";',
        "kafka.config.providers": "env",
        "kafka.config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }


@given(user=TEXTS, password=TEXTS)
def test_a_login_is_read_as_it_was_written(user: str, password: str) -> None:
    assert parse_login(format_login("SCRAM-SHA-512", user, password)) == (user, password)
    assert format_login("SCRAM-SHA-512", user, password).startswith(SCRAM)


def test_a_file_in_javas_own_encoding_is_read(file: Path) -> None:
    file.write_bytes((login() + "sasl.password=größer\n").encode("latin-1"))
    assert kafka_config("there:9092", file).for_python()["sasl_plain_password"] == "größer"


def test_the_environment_gives_what_the_file_does_not(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KAFKA_SASL_JAAS_CONFIG", f'{PLAIN} required username="you" password="theirs";')
    monkeypatch.setenv("KAFKA_SASL_MECHANISM", "SCRAM-SHA-256")
    assert kafka_config("there:9092").properties == {}, "without a protocol it says nothing"
    monkeypatch.setenv("KAFKA_SECURITY_PROTOCOL", "SASL_PLAINTEXT")
    assert kafka_config("there:9092").login() == ("you", "theirs")
    config = config_of(file, "sasl.mechanism=SCRAM-SHA-512\nsasl.username=me\n")
    assert config.login() == ("me", "theirs")
    assert config.for_python()["sasl_mechanism"] == "SCRAM-SHA-512"
    again = kafka_config("there:9092", file)  # as the engine that a screen has started
    assert resolved(again) == resolved(config)


def test_no_secret_shows(file: Path) -> None:
    config = config_of(file, f"{login()}some.other.property={MARK}\nclient.id={MARK}\n")
    arguments = config.for_python()
    assert MARK in arguments["sasl_plain_password"]
    shown = (repr(config), msgspec.json.encode(config).decode(), str(arguments), str(config.for_connector()))
    assert not [text for text in shown if MARK in text]
    assert resolved(config)["kafka.some.other.property"] == MARK


def test_what_is_the_readers_own_is_left_to_it(file: Path) -> None:
    ours = "bootstrap.servers=elsewhere:1\ngroup.id=g\nauto.offset.reset=latest\nenable.auto.commit=true\n"
    config = config_of(file, ours + "isolation.level=read_uncommitted\nkey.deserializer=org.example.X\n")
    assert config == KafkaConfig("there:9092")


def test_timing_is_for_both(file: Path) -> None:
    config = config_of(file, "request.timeout.ms=20000\nretry.backoff.ms = 7\nfetch.min.bytes=2\n")
    assert config.for_python() == {
        "bootstrap_servers": ["there:9092"],
        "request_timeout_ms": 20_000,
        "retry_backoff_ms": 7,
    }
    assert resolved(config)["kafka.fetch.min.bytes"] == "2"


BAD = {
    "[default]": "NAME=VALUE",
    "sasl.password=\0": "NAME=VALUE",
    '{"security.protocol": "SSL"}': "NAME=VALUE",
    "sasl.password=\\u12": "NAME=VALUE",
    "security.protocol=TLS": "security.protocol 'TLS' is not supported; use PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL",
    f"sasl.username=me\nsasl.password={MARK}": "has no security.protocol",
    login("GSSAPI"): "sasl.mechanism 'GSSAPI' is not supported; use PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512",
    login().replace("sasl.mechanism=PLAIN", ""): "sasl.mechanism is missing",
    login().replace(f"x{MARK}", ""): "sasl.password is missing; set it in --kafka-config, or as KAFKA_SASL_PASSWORD",
    login().replace("=me", ""): "sasl.username is missing",
    f"{login()}sasl.jaas.config={PLAIN} required username=me": "LoginModule required",
    f'{login()}sasl.jaas.config={PLAIN} required username="me" password={MARK}/x;': "LoginModule required",
    f"{login()}sasl.jaas.config=com.sun.security.auth.module.Krb5LoginModule required;": "login module",
    f"{login()}sasl.jaas.config={PLAIN} required username=me;": "has no password",
    f"{login()}sasl.jaas.config={SCRAM} required username=a password={MARK} tokenauth=true;": "delegation token",
    f"{login()}config.providers=file": "config.providers",
    "request.timeout.ms=soon": "request.timeout.ms must be a number of ms",
    "request.timeout.ms=600000": "less than 540000",
    "security.protocol=SSL\nenable.ssl.certificate.verification=false": "ssl.ca.location",
    "security.protocol=SSL\nssl.endpoint.identification.algorithm=dns": "must be https, or empty",
    "security.protocol=SSL\nssl.ca.location=none.pem": "ssl.truststore.location: cannot read",
    "security.protocol=SSL\nssl.ca.location=.": "Is a directory",
    "security.protocol=SSL\nssl.truststore.location=broken.pem": "cannot read a certificate",
    "security.protocol=SSL\nssl.truststore.certificates=hello": "no PEM certificate",
    f"security.protocol=SSL\nssl.truststore.location=junk\nssl.truststore.password={MARK}": "cannot open",
    f"security.protocol=SSL\nssl.keystore.location=junk\nssl.keystore.password={MARK}": "cannot open",
    "security.protocol=SSL\nssl.keystore.location=junk": "ssl.keystore.password is missing",
    "security.protocol=SSL\nssl.certificate.location=own.pem": "the client's key is missing",
    "security.protocol=SSL\nssl.keystore.location=own.key": "the client's certificate is missing",
    "security.protocol=SSL\nssl.certificate.location=own.pem\nssl.key.location=other.key": "ssl.keystore.",
    "security.protocol=SSL\nssl.certificate.location=own.pem\nssl.key.location=sealed.key": "set ssl.key.password",
    "security.protocol=SSL\nssl.certificate.location=own.pem\nssl.key.location=sealed.key\n"
    f"ssl.key.password={MARK}": "check ssl.key.password",
}


@pytest.fixture(scope="module")
def authority() -> Authority:
    return Authority()


@pytest.fixture(scope="module")
def own(authority: Authority) -> Issued:
    return authority.issue("watcher.test")


@pytest.fixture(scope="module")
def material(tmp_path_factory: pytest.TempPathFactory, own: Issued, authority: Authority) -> Path:
    """A directory with certificates and keys, good and bad."""
    directory = tmp_path_factory.mktemp("material")
    files = {
        "broken.pem": "-----BEGIN CERTIFICATE-----\nhello\n-----END CERTIFICATE-----\n",
        "ca.pem": f"My authority\n{authority.certificate}",
        "own.pem": own.chain,
        "own.key": own.key(),
        "own.old.key": own.old_key,
        "other.key": authority.issue("other.test").key(),
        "sealed.key": own.key(KEY_PASSWORD),
        "both.pem": own.key(KEY_PASSWORD) + own.chain,
    }
    for name, text in files.items():
        (directory / name).write_text(text)
    (directory / "junk").write_bytes(bytes(range(256)))
    (directory / "own.p12").write_bytes(own.store(STORE_PASSWORD))
    return directory


@pytest.fixture
def here(material: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """In that directory."""
    monkeypatch.chdir(material)
    return material


@pytest.mark.parametrize("text", BAD)
def test_bad_input_is_one_line_without_a_secret(text: str, file: Path, here: Path) -> None:
    with pytest.raises(UsageError) as reported:
        config_of(file, text)
    line = str(reported.value)
    assert BAD[text] in line
    assert MARK not in line
    assert "\n" not in line


def test_a_file_that_is_not_there_is_one_line(file: Path) -> None:
    with refused(UsageError, "unreadable", "--kafka-config", "client.properties"):
        kafka_config("there:9092", file)


def keytool(*arguments: str) -> None:
    command = [find_java().home / "bin" / "keytool", *arguments, "-noprompt"]
    environment = {**os.environ, "STORE": STORE_PASSWORD, "KEY": KEY_PASSWORD}
    subprocess.run(command, env=environment, check=True, capture_output=True, stdin=subprocess.DEVNULL)


def identity_files(kind: str, own: Issued) -> str:
    """The client's certificate and key, in the form `kind`; the properties that say where."""
    match kind:
        case "two files":
            return f"ssl.certificate.location=own.pem\nssl.key.location=sealed.key\nssl.key.password={KEY_PASSWORD}"
        case "one file":
            return f"ssl.keystore.type=PEM\nssl.keystore.location=both.pem\nssl.key.password={KEY_PASSWORD}"
        case "texts":
            lines = [text.replace("\n", "\\n") for text in (own.chain, own.key())]
            return f"ssl.keystore.type=PEM\nssl.keystore.certificate.chain={lines[0]}\nssl.keystore.key={lines[1]}"
        case "joined texts":
            lines = [text.replace("\n", "\\\n    ") for text in (own.chain, own.key())]
            return f"ssl.certificate.pem={lines[0]}\nssl.key.pem={lines[1]}"
        case "PKCS12":
            return f"ssl.keystore.location=own.p12\nssl.keystore.type=PKCS12\nssl.keystore.password={STORE_PASSWORD}"
        case _:
            given = ("-srckeystore", "own.p12", "-srcstorepass:env", "STORE", "-srcalias", "me")
            made = ("-destkeystore", "own.jks", "-deststoretype", "JKS", "-deststorepass:env", "STORE")
            keytool("-importkeystore", *given, *made, "-destkeypass:env", "KEY")
            passwords = f"ssl.keystore.password={STORE_PASSWORD}\nssl.key.password={KEY_PASSWORD}"
            return f"ssl.keystore.location=own.jks\n{passwords}"


@pytest.mark.parametrize("kind", ["two files", "one file", "texts", "joined texts", "PKCS12", JKS])
def test_an_own_certificate_has_many_forms(kind: str, file: Path, here: Path, own: Issued) -> None:
    config = config_of(file, f"security.protocol=SSL\n{identity_files(kind, own)}\nssl.ca.location=ca.pem\n")
    assert isinstance(config.for_python()["ssl_context"], ssl.SSLContext)
    reported = resolved(config)
    assert reported["kafka.ssl.keystore.type"] == "PEM"
    assert reported["kafka.ssl.keystore.certificate.chain"] == own.chain
    assert reported["kafka.ssl.keystore.key"] == own.key()
    assert "kafka.ssl.key.password" not in reported
    shown = str(config.for_connector())
    assert MARK not in shown
    assert "PRIVATE KEY" not in shown


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", JKS])
def test_an_authority_has_many_forms(kind: str, file: Path, here: Path, authority: Authority) -> None:
    name = "ca.pem"
    if kind != "PEM":
        name = f"ca.{kind}"
        keytool("-importcert", "-file", "ca.pem", "-alias", "a", "-keystore", name, "-storetype", kind, *OPENING)
    text = f"ssl.truststore.location={name}\nssl.truststore.password={STORE_PASSWORD}\nssl.truststore.type={kind}"
    config = config_of(file, f"security.protocol=SSL\n{text}\n")
    context: ssl.SSLContext = config.for_python()["ssl_context"]
    assert context.get_ca_certs(binary_form=True) == [ssl.PEM_cert_to_DER_cert(authority.certificate)]
    assert context.check_hostname
    reported = resolved(config)
    assert reported["kafka.ssl.truststore.type"] == "PEM"
    if kind == "PEM":
        assert reported["kafka.ssl.truststore.location"] == str(here / "ca.pem")
    else:
        assert reported["kafka.ssl.truststore.certificates"] == authority.certificate
    assert MARK not in str(reported)


@pytest.mark.parametrize("none", ["", "none"])
def test_the_host_name_is_checked_by_default(none: str, file: Path, here: Path) -> None:
    text = f"security.protocol=SSL\nssl.ca.location=ca.pem\nssl.endpoint.identification.algorithm={none}\n"
    config = config_of(file, text)
    assert not config.for_python()["ssl_context"].check_hostname
    assert config.for_connector()["kafka.ssl.endpoint.identification.algorithm"] == ""


def test_a_place_in_the_file_supersedes_another_place_in_the_environment(
    file: Path, here: Path, own: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KAFKA_SSL_KEYSTORE_LOCATION", "junk")
    monkeypatch.setenv("KAFKA_SSL_TRUSTSTORE_CERTIFICATES", "junk")
    monkeypatch.setenv("KAFKA_SSL_KEY_PASSWORD", KEY_PASSWORD)
    text = "ssl.certificate.location=own.pem\nssl.key.location=sealed.key\nssl.ca.location=ca.pem"
    config = config_of(file, f"security.protocol=SSL\n{text}\n")
    assert resolved(config)["kafka.ssl.keystore.certificate.chain"] == own.chain


@pytest.mark.parametrize("key", ["own.old.key", "sealed.key"])
def test_every_form_of_key_is_for_both_readers_and_needs_no_openssl(
    key: str, file: Path, here: Path, own: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    text = f"ssl.certificate.location=own.pem\nssl.key.location={key}\nssl.key.password={KEY_PASSWORD}"
    config = config_of(file, f"security.protocol=SSL\n{text}\n")
    assert resolved(config)["kafka.ssl.keystore.key"] == own.key()
    assert config.for_python()["ssl_context"]
    assert MARK not in str(config.properties)


@pytest.mark.parametrize("key_password", ["", f"\nssl.key.password={STORE_PASSWORD}"])
def test_a_pkcs12_store_needs_neither_java_nor_openssl(
    key_password: str, file: Path, here: Path, own: Issued, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    monkeypatch.setenv("JAVA_HOME", str(here))
    config = config_of(file, f"security.protocol=SSL\n{identity_files('PKCS12', own)}{key_password}\n")
    assert resolved(config)["kafka.ssl.keystore.certificate.chain"] == own.chain
    assert resolved(config)["kafka.ssl.keystore.key"] == own.key()


@pytest.mark.parametrize("kind", ["PKCS12", JKS])
def test_a_wrong_password_of_a_store_is_one_line(kind: str, file: Path, here: Path, own: Issued) -> None:
    text = identity_files(kind, own).replace(f"keystore.password={STORE_PASSWORD}", "keystore.password=wrong")
    with refused(UsageError, "not_opened", "ssl.keystore.location", "ssl.keystore.password"):
        config_of(file, f"security.protocol=SSL\n{text}\n")


def test_a_secret_that_did_not_get_to_a_worker_is_one_line(file: Path) -> None:
    config = config_of(file, login())
    del os.environ["WMTOP_KAFKA_SASL_JAAS_CONFIG"]
    with refused(UsageError, "", "WMTOP_KAFKA_SASL_JAAS_CONFIG"):
        config.for_python()


@pytest.mark.parametrize("place", ["file", "login", "environment"])
@pytest.mark.parametrize("odd", ["\\u0000", "\\ud800"])
def test_a_password_that_is_not_text_is_refused_by_its_name(
    place: str, odd: str, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    password = f"geheim{odd}"
    lines = ["security.protocol=SASL_SSL", "sasl.mechanism=PLAIN", "sasl.username=me"]
    if place == "environment":
        monkeypatch.setattr(
            os, "environ", {**os.environ, "KAFKA_SASL_PASSWORD": password.encode().decode("unicode-escape")}
        )
    elif place == "login":
        lines = [*lines[:2], f'sasl.jaas.config={PLAIN} required username="me" password="{password}";']
    else:
        lines.append(f"sasl.password={password}")
    with refused(UsageError, "text", "sasl.") as _:
        config_of(file, "\n".join(lines))


@pytest.mark.parametrize("bootstrap", ["me:geheim@there:9092", "me@there:9092", "there:9092,me:geheim@here:9092"])
def test_a_login_in_an_address_is_refused_and_not_repeated(bootstrap: str) -> None:
    with pytest.raises(UsageError) as caught:
        kafka_config(bootstrap)
    assert caught.value.code == "login"
    assert "geheim" not in str(caught.value)


@pytest.mark.parametrize("port", ["²", "٣", "x", "", "-1", "9" * 400])
def test_a_port_that_is_none_is_named(port: str) -> None:
    for servers in (f"here:9092,there:{port}", f"there:{port},here:9092"):
        with refused(UsageError, "port", f"'{port}'"):
            kafka_config(servers)


@pytest.mark.parametrize("bootstrap", ["there", "there:9092", "[::1]", "[::1]:9092", "a:1,b:2"])
def test_a_broker_s_address_may_have_no_port(bootstrap: str) -> None:
    assert kafka_config(bootstrap).bootstrap == bootstrap


def test_an_error_of_another_library_shows_no_secret_in_force(file: Path) -> None:
    config_of(
        file,
        "\n".join(
            ["security.protocol=SASL_PLAINTEXT", "sasl.mechanism=PLAIN", "sasl.username=me", "sasl.password=x9z"]
        ),
    )
    assert first_line(ValueError("invalid value b'x9z'")) == "invalid value b'***'"
    assert str(RunError("the broker said: x9zx9z1, x9z")) == "the broker said: x9zx9z1, ***"
