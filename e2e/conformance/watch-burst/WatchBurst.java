import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.zookeeper.AddWatchMode;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.Watcher.Event.EventType;
import org.apache.zookeeper.Watcher.Event.KeeperState;
import org.apache.zookeeper.ZooDefs;
import org.apache.zookeeper.ZooKeeper;

/**
 * A persistent watch misses nothing: one client of ZooKeeper's own library sets a node 208 times without waiting, another
 * one's watch counts. {@code WatchBurst HOST:PORT,…} prints TAP.
 */
public class WatchBurst {
    private static final int SETS = 208;
    private static final int WAIT_SECONDS = 30;

    public static void main(String[] arguments) throws Exception {
        System.out.println("1..2");
        report(1, "persistent", () -> burst(arguments[0], AddWatchMode.PERSISTENT, "/burst", "/burst"));
        report(2, "persistent recursive", () -> burst(arguments[0], AddWatchMode.PERSISTENT_RECURSIVE, "/deep", "/deep/er"));
        System.exit(0);
    }

    private interface Burst {
        int run() throws Exception;
    }

    private static void report(int number, String name, Burst burst) {
        try {
            int seen = burst.run();
            System.out.println((seen == SETS ? "ok " : "not ok ") + number + " - " + name);
            System.out.println("# " + seen + " of " + SETS + " updates seen");
        } catch (Exception error) {
            System.out.println("not ok " + number + " - " + name + "\n# " + error);
        }
    }

    /** How many events of the sets of {@code written} a watch on {@code watched} sees. */
    private static int burst(String hosts, AddWatchMode mode, String watched, String written) throws Exception {
        try (ZooKeeper watcher = connect(hosts); ZooKeeper writer = connect(hosts)) {
            for (String path = watched; path != null; path = path.equals(written) ? null : written) {
                writer.create(path, new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT);
            }
            sync(watcher, written);
            AtomicInteger seen = new AtomicInteger();
            CountDownLatch all = new CountDownLatch(SETS);
            watcher.addWatch(watched, event -> {
                if (event.getType() == EventType.NodeDataChanged && written.equals(event.getPath())) {
                    seen.incrementAndGet();
                    all.countDown();
                }
            }, mode);
            CountDownLatch answers = new CountDownLatch(SETS);
            for (int number = 0; number < SETS; number++) {
                writer.setData(written, Integer.toString(number).getBytes(), -1, (code, path, context, stat) -> {
                    if (code == 0) {
                        answers.countDown();
                    }
                }, null);
            }
            if (!answers.await(WAIT_SECONDS, TimeUnit.SECONDS)) {
                throw new IllegalStateException(answers.getCount() + " sets were not answered well");
            }
            all.await(WAIT_SECONDS, TimeUnit.SECONDS);
            // One too many would be as wrong; events come before the answer of a later request.
            sync(watcher, written);
            return seen.get();
        }
    }

    private static ZooKeeper connect(String hosts) throws Exception {
        CountDownLatch connected = new CountDownLatch(1);
        ZooKeeper client = new ZooKeeper(hosts, 10_000, event -> {
            if (event.getState() == KeeperState.SyncConnected) {
                connected.countDown();
            }
        });
        if (!connected.await(WAIT_SECONDS, TimeUnit.SECONDS)) {
            client.close();
            throw new IllegalStateException("no connection to " + hosts);
        }
        return client;
    }

    private static void sync(ZooKeeper client, String path) throws Exception {
        CountDownLatch done = new CountDownLatch(1);
        client.sync(path, (code, where, context) -> done.countDown(), null);
        if (!done.await(WAIT_SECONDS, TimeUnit.SECONDS)) {
            throw new IllegalStateException("no answer to sync");
        }
    }
}
