"""Servers that the suite starts and stops itself, through zkServer.sh, with the zoo.cfg that kazoo would give ZooKeeper."""

import logging
import os
import pathlib
import socket
import subprocess
import time

import OpenSSL
from kazoo.testing import common

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
        launcher = os.path.join(os.environ["ZOOKEEPER_BIN_PATH"], "zkServer.sh")
        command = [launcher, "start-foreground", str(home / "zoo.cfg")]
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
