"""ClickHouse's engine in a process (chdb) over our server: what of ClickHouse works on a coordination server alone.

    chdb_checks.py FOLDER HOST:PORT,…     prints TAP

KeeperMap (with the strict mode, which uses versions), generateSerialID, functions and named collections kept in
ZooKeeper, ReplicatedMergeTree created and dropped, a Replicated database. INSERT into a replicated table wants an
interserver port, which chdb does not open.
"""

import pathlib
import sys

import chdb

SESSION_MS = 10000


def configuration(folder, hosts):
    nodes = ""
    for host in hosts.split(","):
        name, port = host.rsplit(":", 1)
        nodes += f"<node><host>{name}</host><port>{port}</port></node>"
    keeper = f"{nodes}<session_timeout_ms>{SESSION_MS}</session_timeout_ms>"
    text = f"""<clickhouse>
  <zookeeper>{keeper}</zookeeper>
  <auxiliary_zookeepers><second>{keeper}</second></auxiliary_zookeepers>
  <keeper_map_path_prefix>/chdb/map</keeper_map_path_prefix>
  <series_keeper_path>/chdb/series</series_keeper_path>
  <user_defined_zookeeper_path>/chdb/functions</user_defined_zookeeper_path>
  <named_collections_storage><type>zookeeper</type><path>/chdb/collections/</path></named_collections_storage>
  <macros><shard>s1</shard><replica>r1</replica></macros>
  <interserver_http_host>127.0.0.1</interserver_http_host>
  <logger><level>information</level><log>{folder}/log</log><errorlog>{folder}/errors</errorlog></logger>
</clickhouse>
"""
    file = pathlib.Path(folder) / "config.xml"
    file.write_text(text)
    return file


# Name, statement, and what it must answer: text, None for anything, or REFUSED with a part of the error.
REFUSED = "refused: "
STEPS = [
    ("database", "CREATE DATABASE d ENGINE=Atomic", None),
    ("keeper_map_create", "CREATE TABLE d.m (key String, value UInt64) ENGINE=KeeperMap('/m') PRIMARY KEY key", None),
    ("keeper_map_insert", "INSERT INTO d.m VALUES ('a',1),('b',2)", None),
    ("keeper_map_read", "SELECT * FROM d.m ORDER BY key", "a\t1\nb\t2\n"),
    ("keeper_map_insert_many", "INSERT INTO d.m SELECT 'k'||toString(number), number FROM numbers(2000)", None),
    ("keeper_map_count", "SELECT count(), sum(value) FROM d.m", "2002\t1999003\n"),
    ("keeper_map_update", "ALTER TABLE d.m UPDATE value = value + 10 WHERE key = 'a'", None),
    ("keeper_map_updated", "SELECT value FROM d.m WHERE key = 'a'", "11\n"),
    ("keeper_map_delete", "DELETE FROM d.m WHERE key = 'b'", None),
    ("keeper_map_deleted", "SELECT count() FROM d.m", "2001\n"),
    ("keeper_map_versions", "SELECT _version FROM d.m WHERE key = 'a'", "1\n"),
    ("strict_mode", "SET keeper_map_strict_mode = 1", None),
    ("strict_insert_of_a_known_key", "INSERT INTO d.m VALUES ('a',5)", REFUSED + "KEEPER_EXCEPTION"),
    ("serial_id", "SELECT generateSerialID('one'), generateSerialID('two')", "0\t0\n"),
    ("serial_id_goes_on", "SELECT generateSerialID('one')", "1\n"),
    ("function", "CREATE FUNCTION plus_nine AS x -> x + 9", None),
    ("function_call", "SELECT plus_nine(1)", "10\n"),
    ("collection", "CREATE NAMED COLLECTION c AS a = 1, b = 'x'", None),
    ("collection_alter", "ALTER NAMED COLLECTION c SET a = 2", None),
    ("collection_is_there", "SELECT name FROM system.named_collections", "c\n"),
    ("collection_drop", "DROP NAMED COLLECTION c", None),
    ("replicated_table", "CREATE TABLE d.t (k UInt64) ENGINE=ReplicatedMergeTree('/chdb/t','r1') ORDER BY k", None),
    ("replica_is_known", "SELECT table, total_replicas FROM system.replicas WHERE table = 't'", "t\t1\n"),
    (
        "replicated_table_on_the_second",
        "CREATE TABLE d.s (k UInt64) ENGINE=ReplicatedMergeTree('second:/chdb/s','r1') ORDER BY k",
        None,
    ),
    ("drop_second", "DROP TABLE d.s SYNC", None),
    ("drop_replicated", "DROP TABLE d.t SYNC", None),
    ("drop_map", "DROP TABLE d.m SYNC", None),
]


def verdict(connection, statement, wanted):
    """None when the answer is the wanted one, else what came."""
    try:
        answer = connection.query(statement, "TSV").data()
    except Exception as error:  # noqa: BLE001 - the engine's errors have no type of their own
        text = str(error)
        if wanted and wanted.startswith(REFUSED) and wanted[len(REFUSED):] in text:
            return None
        return text[:400].replace("\n", " ")
    return None if wanted is None or answer == wanted else f"{answer!r} instead of {wanted!r}"


def main(folder, hosts):
    file = configuration(folder, hosts)
    connection = chdb.connect(f"{folder}/data?config-file={file}")
    print(f"1..{len(STEPS)}")
    for number, (name, statement, wanted) in enumerate(STEPS, 1):
        trouble = verdict(connection, statement, wanted)
        print(f"{'not ok' if trouble else 'ok'} {number} - {name}", flush=True)
        if trouble:
            print(f"# {trouble}", flush=True)
    connection.close()


main(sys.argv[1], sys.argv[2])
