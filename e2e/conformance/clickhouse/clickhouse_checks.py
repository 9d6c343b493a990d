"""Two real ClickHouse servers (Debian's 18.16.1) that replicate through our servers. Prints TAP.

    clickhouse_checks.py FOLDER HOST:PORT,…  PID,…

A replicated table made ON CLUSTER, inserts on both sides, deduplication, ALTER, a quorum insert, OPTIMIZE, DROP
PARTITION; then the first member (its pid is the first one given) is killed, and writes go on.
"""

import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import time

WAIT_SECONDS_MAX = 60
QUERY_SECONDS_MAX = 90


def free_ports(count):
    held = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [listener.getsockname()[1] for listener in held]
    for listener in held:
        listener.close()
    return ports


SERVER = """<?xml version="1.0"?>
<yandex>
  <logger><level>information</level><log>{home}/log</log><errorlog>{home}/errors</errorlog></logger>
  <http_port>{http}</http_port><tcp_port>{tcp}</tcp_port><listen_host>127.0.0.1</listen_host>
  <interserver_http_port>{inter}</interserver_http_port><interserver_http_host>127.0.0.1</interserver_http_host>
  <path>{home}/data/</path><tmp_path>{home}/tmp/</tmp_path>
  <user_files_path>{home}/files/</user_files_path><format_schema_path>{home}/schemas/</format_schema_path>
  <users_config>{home}/users.xml</users_config><default_profile>default</default_profile>
  <default_database>default</default_database><timezone>UTC</timezone><mlock_executable>false</mlock_executable>
  <mark_cache_size>67108864</mark_cache_size>
  <remote_servers><both><shard><internal_replication>true</internal_replication>{replicas}</shard></both></remote_servers>
  <zookeeper>{nodes}<session_timeout_ms>10000</session_timeout_ms></zookeeper>
  <macros><shard>1</shard><replica>r{number}</replica></macros>
  <distributed_ddl><path>/clickhouse/ddl</path></distributed_ddl>
</yandex>
"""
USERS = """<?xml version="1.0"?>
<yandex>
  <profiles><default><max_memory_usage>2000000000</max_memory_usage></default></profiles>
  <users><default><password></password><networks><ip>127.0.0.1</ip></networks>
    <profile>default</profile><quota>default</quota></default></users>
  <quotas><default></default></quotas>
</yandex>
"""
TABLE = (
    "CREATE TABLE t ON CLUSTER both (d Date, k UInt64, v String) "
    "ENGINE = ReplicatedMergeTree('/clickhouse/tables/{shard}/t', '{replica}') "
    "PARTITION BY toYYYYMM(d) ORDER BY k"
)
FIRST = "INSERT INTO t SELECT toDate('2026-01-01') + number % 59, number, toString(number) FROM numbers(100000)"
SECOND = "INSERT INTO t SELECT toDate('2026-01-01') + number % 59, number + 100000, 'x' FROM numbers(50000)"


class Server:
    def __init__(self, folder, number, ports, hosts, tcp_ports):
        self.tcp = ports[0]
        self.home = pathlib.Path(folder) / f"clickhouse-{number}"
        for name in ("data", "tmp", "files", "schemas"):
            (self.home / name).mkdir(parents=True)
        nodes = ""
        for at, host in enumerate(hosts.split(",")):
            name, port = host.rsplit(":", 1)
            nodes += f'<node index="{at}"><host>{name}</host><port>{port}</port></node>'
        replicas = "".join(f"<replica><host>127.0.0.1</host><port>{port}</port></replica>" for port in tcp_ports)
        values = dict(home=self.home, tcp=ports[0], http=ports[1], inter=ports[2], number=number)
        (self.home / "config.xml").write_text(SERVER.format(nodes=nodes, replicas=replicas, **values))
        (self.home / "users.xml").write_text(USERS)
        output = open(self.home / "output", "ab")
        self.process = subprocess.Popen(
            ["clickhouse-server", f"--config-file={self.home}/config.xml"],
            stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=self.home,
        )

    def query(self, text, *settings):
        command = ["clickhouse-client", "--host", "127.0.0.1", "--port", str(self.tcp), *settings, "--query", text]
        done = subprocess.run(command, capture_output=True, text=True, timeout=QUERY_SECONDS_MAX)
        if done.returncode != 0:
            raise RuntimeError(f"{text[:100]}: {done.stderr.strip()[:400]}")
        return done.stdout

    def wait(self, text, wanted):
        """Asks again until the answer is the wanted one."""
        end = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            try:
                answer = self.query(text)
            except (RuntimeError, subprocess.TimeoutExpired) as error:
                answer = str(error)
            if answer == wanted:
                return
            if time.monotonic() > end:
                raise RuntimeError(f"{text}: {answer!r} instead of {wanted!r}")
            time.sleep(0.2)

    def end(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def kill_member(pids):
    os.kill(pids[0], signal.SIGKILL)


def steps(one, two, pids):
    """Name and what is done; an exception is the failure."""
    both = (one, two)
    sums = "150000\t11249925000\n"

    def everywhere(text, wanted):
        for server in both:
            server.wait(text, wanted)

    def quorum_insert():
        one.query("INSERT INTO t (d, k, v) VALUES ('2026-03-01', 1000000, 'q')", "--insert_quorum=2")
        # With the quorum reached the other side has the part already.
        if two.query("SELECT count() FROM t WHERE k = 1000000") != "1\n":
            raise RuntimeError("the second replica lacks a quorum insert")

    def insert_after_kill():
        end = time.monotonic() + WAIT_SECONDS_MAX
        while True:
            try:
                return two.query("INSERT INTO t (d, k, v) VALUES ('2026-04-01', 2000000, 'k')")
            except RuntimeError:
                # The session of a killed member is found again on another one; ClickHouse says so to the caller once.
                if time.monotonic() > end:
                    raise
                time.sleep(0.5)

    return [
        ("servers_start", lambda: everywhere("SELECT 1", "1\n")),
        ("create_on_cluster", lambda: one.query(TABLE)),
        ("table_is_on_both", lambda: everywhere("SHOW TABLES", "t\n")),
        ("insert_on_the_first", lambda: one.query(FIRST)),
        ("insert_on_the_second", lambda: two.query(SECOND)),
        ("both_have_all", lambda: everywhere("SELECT count(), sum(k) FROM t", sums)),
        ("repeated_insert", lambda: one.query(FIRST)),
        ("repeated_insert_is_dropped", lambda: everywhere("SELECT count(), sum(k) FROM t", sums)),
        ("alter", lambda: two.query("ALTER TABLE t ADD COLUMN x UInt8 DEFAULT 7")),
        ("alter_reaches_both", lambda: everywhere("SELECT sum(x) FROM t", "1050000\n")),
        ("quorum_insert", quorum_insert),
        ("optimize", lambda: one.query("OPTIMIZE TABLE t PARTITION 202601 FINAL")),
        ("drop_partition", lambda: two.query("ALTER TABLE t DROP PARTITION 202602")),
        ("partition_is_gone", lambda: everywhere("SELECT count() FROM t WHERE toYYYYMM(d) = 202602", "0\n")),
        ("member_killed", lambda: kill_member(pids)),
        ("insert_after_the_kill", insert_after_kill),
        ("both_have_it", lambda: everywhere("SELECT count() FROM t WHERE k = 2000000", "1\n")),
        ("nobody_is_read_only", lambda: everywhere("SELECT is_readonly FROM system.replicas", "0\n")),
        ("queues_are_empty", lambda: everywhere("SELECT queue_size FROM system.replicas", "0\n")),
        ("drop_on_cluster", lambda: one.query("DROP TABLE t ON CLUSTER both")),
    ]


def main(folder, hosts, pids):
    ports = free_ports(6)
    tcp = [ports[0], ports[3]]
    one = Server(folder, 1, ports[:3], hosts, tcp)
    two = Server(folder, 2, ports[3:], hosts, tcp)
    try:
        all_steps = steps(one, two, pids)
        print(f"1..{len(all_steps)}")
        for number, (name, run) in enumerate(all_steps, 1):
            try:
                run()
                print(f"ok {number} - {name}", flush=True)
            except Exception as error:  # noqa: BLE001 - every failure is the step's result
                print(f"not ok {number} - {name}\n# {re.sub(chr(10), ' ', str(error))}", flush=True)
    finally:
        one.end()
        two.end()


main(sys.argv[1], sys.argv[2], [int(pid) for pid in sys.argv[3].split(",")])
