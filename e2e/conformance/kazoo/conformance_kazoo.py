"""pytest plugin: kazoo's test harness, its servers started and stopped by the suite, through zkServer.sh.

    ZOOKEEPER_BIN_PATH=<folder of zkServer.sh> python -m pytest -p conformance_kazoo kazoo/tests

The test files stay untouched. What changes is how the harness starts a server: not `java … QuorumPeerMain`, but
`zkServer.sh start-foreground zoo.cfg`, with the same zoo.cfg; keys and certificates are given as PEM files in place of
Java key stores (ZooKeeper reads both). With CASTELLAN_HOSTS=host:port,… nothing is started and those servers are used;
tests that stop a server, or want it set up in a special way, skip themselves then.

CASTELLAN_RESULTS names a file that gets a line `passed|failed|skipped NAME` for each test.
"""

import logging
import os
import pathlib
import socket
import subprocess
import time

import pytest

HOSTS = [host for host in os.environ.get("CASTELLAN_HOSTS", "").split(",") if host]
LAUNCHER = os.environ.get("ZOOKEEPER_BIN_PATH")
RESULTS = os.environ.get("CASTELLAN_RESULTS")

# The harness wants to know an installation and its version; tests choose themselves by the latter.
os.environ.setdefault("ZOOKEEPER_PATH", "/started/by/zkServer.sh")
os.environ.setdefault("ZOOKEEPER_VERSION", "3.9.5")
# With CI set some tests believe ZOOKEEPER_VERSION instead of asking the server.
os.environ.pop("CI", None)

import OpenSSL  # noqa: E402
from kazoo.testing import common, harness  # noqa: E402

START_SECONDS_MAX = 60
STOP_SECONDS_MAX = 20


def word(port, word=b"srvr"):
    """The answer to a four-letter word, or nothing."""
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.settimeout(2)
            connection.sendall(word)
            return b"".join(iter(lambda: connection.recv(65536), b""))
    except OSError:
        return b""


class LaunchedServer(common.ManagedZooKeeper):
    """One server that zkServer.sh starts."""

    def run(self):
        if self.running:
            return
        home = pathlib.Path(self.working_path)
        data = home / "data"
        data.mkdir(parents=True, exist_ok=True)
        (data / "myid").write_text(str(self.server_info.server_id))
        (home / "jaas.conf").write_text(self.jaas_config or "")
        (home / "zoo.cfg").write_text("\n".join(self.lines(home, data)) + "\n")
        flags = ["-Dreadonlymode.enabled=true", "-Dfile.encoding=UTF-8"]
        flags.append(f"-Djava.security.auth.login.config={home / 'jaas.conf'}")
        environment = dict(os.environ, SERVER_JVMFLAGS=" ".join(flags + list(self.java_system_properties)))
        self.output = open(home / "zookeeper.log", "ab")
        command = [os.path.join(LAUNCHER, "zkServer.sh"), "start-foreground", str(home / "zoo.cfg")]
        self.process = subprocess.Popen(
            command, env=environment, cwd=home, stdin=subprocess.DEVNULL, stdout=self.output, stderr=self.output
        )
        self._running = True

    def lines(self, home, data):
        """What kazoo's own zoo.cfg says, with PEM files for its key stores."""
        info = self.server_info
        pem = OpenSSL.crypto.FILETYPE_PEM
        key = OpenSSL.crypto.dump_privatekey(pem, self.ssl_configuration["server_key"])
        certificate = OpenSSL.crypto.dump_certificate(pem, self.ssl_configuration["server_cert"])
        (home / "server.pem").write_bytes(key + certificate)
        (home / "ca.pem").write_bytes(self.ssl_configuration["ca_cert_pem"])
        yield from [
            "tickTime=2000",
            f"dataDir={data}",
            f"clientPort={info.client_port}",
            f"secureClientPort={info.secure_client_port}",
            "maxClientCnxns=0",
            f"admin.serverPort={info.admin_port}",
            "serverCnxnFactory=org.apache.zookeeper.server.NettyServerCnxnFactory",
            "authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
            f"ssl.keyStore.location={home / 'server.pem'}",
            f"ssl.trustStore.location={home / 'ca.pem'}",
        ]
        yield from self.configuration_entries
        if self.peers:
            yield from ["initLimit=4", "syncLimit=2", f"peerType={info.peer_type}"]
            for peer in sorted([info, *self.peers], key=lambda peer: peer.server_id):
                ports = f"{peer.leader_port}:{peer.election_port}"
                yield f"server.{peer.server_id}=localhost:{ports}:{peer.peer_type}"

    def stop(self):
        if not self.running:
            return
        self.process.terminate()
        try:
            self.process.wait(STOP_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            logging.error("server %s does not stop", self.server_info.server_id)
            self.process.kill()
            self.process.wait()
        self.output.close()
        self._running = False


class LaunchedCluster(common.ZookeeperCluster):
    def start(self):
        for server in reversed(list(self)):
            server.run()
        # kazoo waits two seconds, whatever happens; here until all of them serve.
        end = time.monotonic() + START_SECONDS_MAX
        for server in self:
            while b"Mode:" not in word(server.client_port):
                if time.monotonic() > end or server.process.poll() is not None:
                    tail = "".join(server.get_logs(40))
                    raise RuntimeError(f"server {server.server_info.server_id} does not serve:\n{tail}")
                time.sleep(0.05)


class RunningServer:
    """A server that somebody else started, and nobody here may stop."""

    running = True

    def __init__(self, address):
        self.address = address
        self.secure_address = ""
        self.host, port = address.rsplit(":", 1)
        self.client_port = int(port)

    def run(self):
        pytest.skip("starts or stops a server; these are not the test's")

    stop = reset = run

    def destroy(self):
        pass

    def get_logs(self, num_lines=100):
        return []


class RunningCluster(common.ZookeeperCluster):
    def __init__(self, **_settings):
        # A skip here leaves the class's own clean-up out.
        sasl = os.environ.pop("ZOOKEEPER_JAAS_AUTH", None)
        read_only = os.environ.pop("ZOOKEEPER_LOCAL_SESSION_RO", None) == "true"
        if sasl or read_only:
            pytest.skip("wants servers with SASL users or read-only mode")
        self._servers = [RunningServer(host) for host in HOSTS]

    def start(self):
        pass

    terminate = stop = reset = start

    def get_ssl_client_configuration(self):
        pytest.skip("wants servers with kazoo's own certificates")


class Results:
    """One line for each test; a test whose set-up or clean-up fails has failed."""

    def __init__(self):
        self.outcomes = {}

    def pytest_runtest_logreport(self, report):
        name = report.nodeid.rsplit("/", 1)[-1]
        before = self.outcomes.get(name)
        if report.failed or before == "failed":
            self.outcomes[name] = "failed"
        elif report.skipped:
            self.outcomes[name] = "skipped"
        elif report.when == "call":
            self.outcomes[name] = "passed"

    def pytest_collectreport(self, report):
        if report.failed:
            self.outcomes[report.nodeid.rsplit("/", 1)[-1] or "collection"] = "failed"

    def pytest_sessionfinish(self):
        lines = [f"{outcome} {name}\n" for name, outcome in self.outcomes.items()]
        pathlib.Path(RESULTS).write_text("".join(lines))


def pytest_configure(config):
    if HOSTS:
        harness.ZookeeperCluster = RunningCluster
    elif LAUNCHER:
        common.ManagedZooKeeper = LaunchedServer
        harness.ZookeeperCluster = LaunchedCluster
    else:
        raise pytest.UsageError("set ZOOKEEPER_BIN_PATH (servers are started) or CASTELLAN_HOSTS (they run)")
    if RESULTS:
        config.pluginmanager.register(Results(), "conformance-results")
