import socket
import threading

import psutil
import pytest
from pyignite import Client

from ignite_server.cluster import make_ready
from ignite_server.config import CACHE_GROUP
from ignite_server.server import IgniteServer
from mistbow.errors import MistbowError
from mistbow.java import find_java

pytestmark = pytest.mark.usefixtures("processes")


def put(server, key, value):
    client = Client(timeout=5)
    with client.connect("127.0.0.1", server.port):
        client.get_or_create_cache("things").put(key, value)


def get(server, key):
    client = Client(timeout=5)
    with client.connect("127.0.0.1", server.port):
        return client.get_or_create_cache("things").get(key)


def partitions(server):
    client = Client(timeout=5)
    with (
        client.connect("127.0.0.1", server.port),
        client.sql("SELECT CACHE_GROUP_NAME, PARTITIONS_COUNT FROM SYS.CACHE_GROUPS") as rows,
    ):
        return dict(rows)[CACHE_GROUP]


def test_acknowledged_data_survive_kill_and_stop(tmp_path):
    with IgniteServer(tmp_path) as server:
        put(server, "a", 1)
        assert partitions(server) == 32
        server.kill()
        server.start()
        assert get(server, "a") == 1
        put(server, "b", 2)
        server.restart()
        assert (get(server, "a"), get(server, "b")) == (1, 2)
        assert partitions(server) == 32
        pid = server.pid
    assert not psutil.pid_exists(pid)


def test_files_of_the_server_contain_no_secret_of_the_environment(tmp_path, monkeypatch):
    monkeypatch.setenv("MISTBOW_TOKEN", "token-of-the-fog")
    monkeypatch.setenv("OTHER_PASSWORD", "password-of-another")
    with IgniteServer(tmp_path) as server:
        put(server, "a", "stored text")
    contents = [path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()]
    assert any(b"stored text" in content for content in contents)
    for secret in (b"token-of-the-fog", b"password-of-another"):
        assert not any(secret in content for content in contents)


def test_server_listens_on_loopback_and_on_its_ports_only(tmp_path):
    with IgniteServer(tmp_path, durability="memory") as server:
        listening = {
            (c.laddr.ip, c.laddr.port)
            for c in psutil.Process(server.pid).net_connections("tcp")
            if c.status == psutil.CONN_LISTEN
        }
    config = server.config
    ports = (config.port, config.discovery_port, config.communication_port)
    assert listening == {("127.0.0.1", port) for port in ports}


def test_server_without_clusters_is_not_ready(tmp_path):
    config = IgniteServer(tmp_path).config
    config.folder.mkdir()
    with socket.create_server(("127.0.0.1", config.port)) as listening:

        def answer():
            connection, _ = listening.accept()
            with connection:
                connection.recv(100)
                connection.sendall(b"\x01\0\0\0\x01")  # a handshake without features

        threading.Thread(target=answer, daemon=True).start()
        assert make_ready(config, tmp_path) is False


def test_old_java_is_refused(tmp_path, monkeypatch):
    (tmp_path / "bin").mkdir()
    java = tmp_path / "bin" / "java"
    java.write_text("#!/bin/sh\necho 'openjdk version \"1.8.0_402\"' >&2\n")
    java.chmod(0o755)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MistbowError, match="Java 8, older than 17"):
        find_java()


def test_absent_java_is_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(MistbowError, match="no Java was found in JAVA_HOME"):
        find_java()
