#!/bin/sh
# ZooKeeper's launcher as other people's suites call it:
#   zkServer.sh start-foreground|start|stop|restart|status|print-cmd [zoo.cfg]
# Starts the binary that KEEPER_BINARY names (else `keeper` from PATH) with that zoo.cfg; -D flags come in
# SERVER_JVMFLAGS and JVMFLAGS. With CONFORMANCE_ZOOKEEPER_CLASSPATH set it starts the real ZooKeeper from those jars.
# The server takes this script's place (exec): a signal to the one is a signal to the other.

cfg=${2:-${ZOOCFGDIR:+$ZOOCFGDIR/}${ZOOCFG:-zoo.cfg}}

value() { # the value of a key of the zoo.cfg; the last one counts
    sed -n "s/^[[:space:]]*$1[[:space:]]*[=:][[:space:]]*//p" "$cfg" | tail -n 1
}

needs_cfg() {
    if [ ! -r "$cfg" ]; then
        echo "zkServer.sh: cannot read $cfg" >&2
        exit 1
    fi
}

# Sets the command as the positional parameters would be: one word a line is no use with blanks, so it is run here.
run() {
    if [ -n "$CONFORMANCE_ZOOKEEPER_CLASSPATH" ]; then
        # shellcheck disable=SC2086 # flags are words
        $1 "${CONFORMANCE_JAVA:-java}" -Xmx256m -XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData \
            -Dorg.slf4j.simpleLogger.logFile=System.out $SERVER_JVMFLAGS $JVMFLAGS \
            -cp "$CONFORMANCE_ZOOKEEPER_CLASSPATH" org.apache.zookeeper.server.quorum.QuorumPeerMain "$cfg"
    else
        unset KEEPER_CONFIG
        $1 "${KEEPER_BINARY:-keeper}" serve --zoo-cfg "$cfg"
    fi
}

pid_file() {
    echo "$(value dataDir)/zookeeper_server.pid"
}

alive() {
    [ -f "$1" ] && kill -0 "$(cat "$1")" 2>/dev/null
}

stop() {
    file=$(pid_file)
    if ! alive "$file"; then
        echo "no server of $cfg runs (to stop)"
        return 0
    fi
    pid=$(cat "$file")
    kill "$pid"
    for _ in $(seq 200); do
        kill -0 "$pid" 2>/dev/null || break
        sleep 0.1
    done
    if kill -0 "$pid" 2>/dev/null; then
        echo "zkServer.sh: $pid does not stop" >&2
        return 1
    fi
    rm -f "$file"
    echo "Stopping zookeeper ... STOPPED"
}

start() {
    file=$(pid_file)
    if alive "$file"; then
        echo "zkServer.sh: the server of $cfg runs already as $(cat "$file")" >&2
        return 1
    fi
    mkdir -p "$(value dataDir)" || return 1
    run "exec nohup" >>"${ZOO_LOG_DIR:-$(value dataDir)}/zookeeper.out" 2>&1 </dev/null &
    echo $! >"$file"
    sleep 1
    if ! alive "$file"; then
        echo "Starting zookeeper ... FAILED TO START" >&2
        return 1
    fi
    echo "Starting zookeeper ... STARTED"
}

# The client port: of the file, or behind the `;` of this server's line.
status() {
    port=$(value clientPort)
    if [ -z "$port" ]; then
        id=$(cat "$(value dataDir)/myid" 2>/dev/null)
        port=$(value "server\\.$id" | sed -n 's/.*;.*[^0-9]\{0,1\}\([0-9]\{1,\}\)$/\1/p')
    fi
    mode=$(KEEPER_PORT="$port" python3 -c '
import os, socket
s = socket.create_connection(("127.0.0.1", int(os.environ["KEEPER_PORT"])), 5)
s.sendall(b"srvr")
print(b"".join(iter(lambda: s.recv(4096), b"")).decode())' 2>/dev/null | grep '^Mode:')
    if [ -z "$mode" ]; then
        echo "Error contacting service. It is probably not running." >&2
        return 1
    fi
    echo "$mode"
}

case $1 in
start-foreground) needs_cfg; run exec ;;
start) needs_cfg; start ;;
stop) needs_cfg; stop ;;
restart) needs_cfg; stop && start ;;
status) needs_cfg; status ;;
print-cmd) needs_cfg; run echo ;;
*)
    echo "Usage: $0 {start-foreground|start|stop|restart|status|print-cmd} [zoo.cfg]" >&2
    exit 2
    ;;
esac
