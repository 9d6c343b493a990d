import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertNotNull;
import static org.junit.jupiter.api.Assertions.assertNull;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.IOException;
import java.net.Socket;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.curator.framework.CuratorFramework;
import org.apache.curator.framework.CuratorFrameworkFactory;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicInteger;
import org.apache.curator.framework.recipes.atomic.DistributedAtomicLong;
import org.apache.curator.framework.recipes.barriers.DistributedBarrier;
import org.apache.curator.framework.recipes.barriers.DistributedDoubleBarrier;
import org.apache.curator.framework.recipes.cache.CuratorCache;
import org.apache.curator.framework.recipes.cache.NodeCache;
import org.apache.curator.framework.recipes.cache.PathChildrenCache;
import org.apache.curator.framework.recipes.cache.TreeCache;
import org.apache.curator.framework.recipes.leader.LeaderLatch;
import org.apache.curator.framework.recipes.leader.LeaderSelector;
import org.apache.curator.framework.recipes.leader.LeaderSelectorListenerAdapter;
import org.apache.curator.framework.recipes.locks.InterProcessMultiLock;
import org.apache.curator.framework.recipes.locks.InterProcessMutex;
import org.apache.curator.framework.recipes.locks.InterProcessReadWriteLock;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreMutex;
import org.apache.curator.framework.recipes.locks.InterProcessSemaphoreV2;
import org.apache.curator.framework.recipes.locks.Lease;
import org.apache.curator.framework.recipes.nodes.GroupMember;
import org.apache.curator.framework.recipes.nodes.PersistentNode;
import org.apache.curator.framework.recipes.nodes.PersistentTtlNode;
import org.apache.curator.framework.recipes.queue.DistributedDelayQueue;
import org.apache.curator.framework.recipes.queue.DistributedPriorityQueue;
import org.apache.curator.framework.recipes.queue.DistributedQueue;
import org.apache.curator.framework.recipes.queue.QueueBuilder;
import org.apache.curator.framework.recipes.queue.QueueConsumer;
import org.apache.curator.framework.recipes.queue.QueueSerializer;
import org.apache.curator.framework.recipes.queue.SimpleDistributedQueue;
import org.apache.curator.framework.recipes.shared.SharedCount;
import org.apache.curator.framework.recipes.shared.SharedValue;
import org.apache.curator.framework.recipes.watch.PersistentWatcher;
import org.apache.curator.framework.state.ConnectionState;
import org.apache.curator.retry.ExponentialBackoffRetry;
import org.apache.curator.retry.RetryNTimes;
import org.apache.curator.utils.ZKPaths;
import org.apache.zookeeper.CreateMode;
import org.apache.zookeeper.KeeperException;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.DynamicTest;
import org.junit.jupiter.api.MethodOrderer;
import org.junit.jupiter.api.Order;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestFactory;
import org.junit.jupiter.api.TestMethodOrder;
import org.junit.jupiter.api.Timeout;

/**
 * Apache Curator's recipes against three running members ({@code castellan.hosts}, in the order of the processes in
 * {@code castellan.pids}). The last test kills one member under recipes that are in use.
 */
@TestMethodOrder(MethodOrderer.OrderAnnotation.class)
@Timeout(value = 60)
class CuratorRecipesTest {
    private static final String HOSTS = System.getProperty("castellan.hosts");
    private static final int WAIT_SECONDS = 30;

    private final List<AutoCloseable> open = new ArrayList<>();
    private final String root = "/curator/" + UUID.randomUUID();
    private CuratorFramework one;
    private CuratorFramework two;

    @BeforeEach
    void connect() throws Exception {
        one = client();
        two = client();
        one.create().creatingParentsIfNeeded().forPath(root);
        two.sync().forPath(root);
    }

    @AfterEach
    void close() throws Exception {
        for (int at = open.size() - 1; at >= 0; at--) {
            open.get(at).close();
        }
    }

    private CuratorFramework client() throws Exception {
        CuratorFramework client =
                CuratorFrameworkFactory.newClient(HOSTS, 10_000, 10_000, new ExponentialBackoffRetry(100, 8, 2_000));
        client.start();
        open.add(client);
        assertTrue(client.blockUntilConnected(WAIT_SECONDS, TimeUnit.SECONDS));
        return client;
    }

    private <T extends AutoCloseable> T closed(T closeable) {
        open.add(closeable);
        return closeable;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    private static void eventually(String what, Callable<Boolean> condition) throws Exception {
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(WAIT_SECONDS);
        while (!condition.call()) {
            assertTrue(System.nanoTime() < end, what + ": not within " + WAIT_SECONDS + " s");
            Thread.sleep(20);
        }
    }

    // Locks.

    @Test
    void mutexExcludesAndIsReentrant() throws Exception {
        InterProcessMutex first = new InterProcessMutex(one, root + "/lock");
        InterProcessMutex second = new InterProcessMutex(two, root + "/lock");
        first.acquire();
        first.acquire();
        assertFalse(second.acquire(300, TimeUnit.MILLISECONDS));
        first.release();
        assertFalse(second.acquire(300, TimeUnit.MILLISECONDS));
        first.release();
        assertTrue(second.acquire(WAIT_SECONDS, TimeUnit.SECONDS));
        second.release();
    }

    @Test
    void mutexCountsRightUnderContention() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(6);
        AtomicInteger inside = new AtomicInteger();
        AtomicInteger rounds = new AtomicInteger();
        List<Future<?>> all = new ArrayList<>();
        for (int i = 0; i < 6; i++) {
            InterProcessMutex mutex = new InterProcessMutex(i % 2 == 0 ? one : two, root + "/contended");
            all.add(threads.submit(() -> {
                for (int round = 0; round < 10; round++) {
                    mutex.acquire();
                    assertEquals(1, inside.incrementAndGet());
                    rounds.incrementAndGet();
                    inside.decrementAndGet();
                    mutex.release();
                }
                return null;
            }));
        }
        for (Future<?> future : all) {
            future.get(WAIT_SECONDS, TimeUnit.SECONDS);
        }
        threads.shutdown();
        assertEquals(60, rounds.get());
    }

    @Test
    void mutexIsFreedByTheDeathOfItsClient() throws Exception {
        CuratorFramework dying = client();
        new InterProcessMutex(dying, root + "/left").acquire();
        InterProcessMutex second = new InterProcessMutex(two, root + "/left");
        assertFalse(second.acquire(300, TimeUnit.MILLISECONDS));
        dying.close();
        assertTrue(second.acquire(WAIT_SECONDS, TimeUnit.SECONDS));
        second.release();
    }

    @Test
    void semaphoreMutexExcludes() throws Exception {
        InterProcessSemaphoreMutex first = new InterProcessSemaphoreMutex(one, root + "/semaphore-mutex");
        InterProcessSemaphoreMutex second = new InterProcessSemaphoreMutex(two, root + "/semaphore-mutex");
        first.acquire();
        assertFalse(second.acquire(300, TimeUnit.MILLISECONDS));
        first.release();
        assertTrue(second.acquire(WAIT_SECONDS, TimeUnit.SECONDS));
        second.release();
    }

    @Test
    void readersShareAndWritersDoNot() throws Exception {
        InterProcessReadWriteLock first = new InterProcessReadWriteLock(one, root + "/rw");
        InterProcessReadWriteLock second = new InterProcessReadWriteLock(two, root + "/rw");
        first.readLock().acquire();
        assertTrue(second.readLock().acquire(WAIT_SECONDS, TimeUnit.SECONDS));
        second.readLock().release();
        assertFalse(second.writeLock().acquire(300, TimeUnit.MILLISECONDS));
        first.readLock().release();
        assertTrue(second.writeLock().acquire(WAIT_SECONDS, TimeUnit.SECONDS));
        assertFalse(first.readLock().acquire(300, TimeUnit.MILLISECONDS));
        second.writeLock().release();
    }

    @Test
    void semaphoreHandsOutItsLeases() throws Exception {
        InterProcessSemaphoreV2 first = new InterProcessSemaphoreV2(one, root + "/semaphore", 2);
        InterProcessSemaphoreV2 second = new InterProcessSemaphoreV2(two, root + "/semaphore", 2);
        Lease a = first.acquire(WAIT_SECONDS, TimeUnit.SECONDS);
        Lease b = second.acquire(WAIT_SECONDS, TimeUnit.SECONDS);
        assertNotNull(a);
        assertNotNull(b);
        assertNull(first.acquire(300, TimeUnit.MILLISECONDS));
        second.returnLease(b);
        assertNotNull(first.acquire(WAIT_SECONDS, TimeUnit.SECONDS));
    }

    @Test
    void severalLocksAreTakenTogetherOrNotAtAll() throws Exception {
        List<String> paths = Arrays.asList(root + "/multi-a", root + "/multi-b");
        InterProcessMultiLock both = new InterProcessMultiLock(one, paths);
        InterProcessMutex other = new InterProcessMutex(two, root + "/multi-b");
        other.acquire();
        assertFalse(both.acquire(300, TimeUnit.MILLISECONDS));
        assertTrue(new InterProcessMutex(two, root + "/multi-a").acquire(WAIT_SECONDS, TimeUnit.SECONDS));
        other.release();
    }

    // Leader election.

    @Test
    void latchHasOneLeaderAndThenTheNext() throws Exception {
        LeaderLatch first = closed(new LeaderLatch(one, root + "/latch", "one"));
        first.start();
        assertTrue(first.await(WAIT_SECONDS, TimeUnit.SECONDS));
        LeaderLatch second = new LeaderLatch(two, root + "/latch", "two");
        second.start();
        eventually("two participants", () -> second.getParticipants().size() == 2);
        assertFalse(second.hasLeadership());
        assertEquals("one", second.getLeader().getId());
        first.close();
        open.remove(first);
        closed(second);
        assertTrue(second.await(WAIT_SECONDS, TimeUnit.SECONDS));
    }

    @Test
    void selectorLetsEachContenderLeadInTurn() throws Exception {
        Set<String> led = ConcurrentHashMap.newKeySet();
        AtomicInteger at = new AtomicInteger();
        CountDownLatch turns = new CountDownLatch(6);
        for (CuratorFramework client : List.of(one, two, client())) {
            String name = "contender-" + led.size() + "-" + UUID.randomUUID();
            LeaderSelector selector = closed(new LeaderSelector(client, root + "/selector", new LeaderSelectorListenerAdapter() {
                @Override
                public void takeLeadership(CuratorFramework ignored) throws Exception {
                    assertEquals(1, at.incrementAndGet());
                    led.add(name);
                    Thread.sleep(10);
                    at.decrementAndGet();
                    turns.countDown();
                }
            }));
            selector.autoRequeue();
            selector.start();
        }
        assertTrue(turns.await(WAIT_SECONDS, TimeUnit.SECONDS));
        assertEquals(3, led.size());
    }

    // Caches.

    @Test
    void curatorCacheFollowsATree() throws Exception {
        one.create().creatingParentsIfNeeded().forPath(root + "/cache/a", bytes("1"));
        CuratorCache cache = closed(CuratorCache.build(two, root + "/cache"));
        cache.start();
        eventually("what was there", () -> cache.get(root + "/cache/a").isPresent());
        one.setData().forPath(root + "/cache/a", bytes("2"));
        one.create().creatingParentsIfNeeded().forPath(root + "/cache/b/c/d", bytes("3"));
        eventually("a change", () -> cache.get(root + "/cache/a").map(c -> new String(c.getData())).orElse("").equals("2"));
        eventually("a new branch", () -> cache.get(root + "/cache/b/c/d").isPresent());
        one.delete().deletingChildrenIfNeeded().forPath(root + "/cache/b");
        eventually("a branch gone", () -> cache.size() == 2);
    }

    @Test
    void olderCachesFollowToo() throws Exception {
        one.create().creatingParentsIfNeeded().forPath(root + "/old/a", bytes("1"));
        NodeCache node = closed(new NodeCache(two, root + "/old/a"));
        node.start(true);
        PathChildrenCache children = closed(new PathChildrenCache(two, root + "/old", true));
        children.start(PathChildrenCache.StartMode.BUILD_INITIAL_CACHE);
        TreeCache tree = closed(new TreeCache(two, root + "/old"));
        tree.start();
        assertArrayEquals(bytes("1"), node.getCurrentData().getData());
        assertEquals(1, children.getCurrentData().size());
        one.setData().forPath(root + "/old/a", bytes("2"));
        one.create().forPath(root + "/old/b", bytes("3"));
        eventually("node", () -> Arrays.equals(bytes("2"), node.getCurrentData().getData()));
        eventually("children", () -> children.getCurrentData().size() == 2);
        eventually("tree", () -> tree.getCurrentData(root + "/old/b") != null);
    }

    @Test
    void persistentWatcherSeesEveryChange() throws Exception {
        one.create().forPath(root + "/watched");
        AtomicInteger changes = new AtomicInteger();
        PersistentWatcher watcher = closed(new PersistentWatcher(two, root + "/watched", true));
        watcher.getListenable().addListener(event -> changes.incrementAndGet());
        CountDownLatch set = new CountDownLatch(1);
        watcher.getResetListenable().addListener(set::countDown);
        watcher.start();
        assertTrue(set.await(WAIT_SECONDS, TimeUnit.SECONDS));
        for (int i = 0; i < 50; i++) {
            one.setData().forPath(root + "/watched", bytes("" + i));
        }
        one.create().forPath(root + "/watched/child");
        eventually("51 events", () -> changes.get() == 51);
    }

    // Barriers.

    @Test
    void barrierHoldsUntilItIsRemoved() throws Exception {
        DistributedBarrier first = new DistributedBarrier(one, root + "/barrier");
        first.setBarrier();
        DistributedBarrier second = new DistributedBarrier(two, root + "/barrier");
        assertFalse(second.waitOnBarrier(300, TimeUnit.MILLISECONDS));
        first.removeBarrier();
        assertTrue(second.waitOnBarrier(WAIT_SECONDS, TimeUnit.SECONDS));
    }

    @Test
    void doubleBarrierLetsAllInAndOutTogether() throws Exception {
        ExecutorService threads = Executors.newFixedThreadPool(4);
        AtomicInteger entered = new AtomicInteger();
        List<Future<Boolean>> all = new ArrayList<>();
        for (int i = 0; i < 4; i++) {
            DistributedDoubleBarrier barrier = new DistributedDoubleBarrier(i % 2 == 0 ? one : two, root + "/double", 4);
            int delay = i * 50;
            all.add(threads.submit(() -> {
                Thread.sleep(delay);
                entered.incrementAndGet();
                boolean in = barrier.enter(WAIT_SECONDS, TimeUnit.SECONDS);
                boolean together = entered.get() == 4;
                return in && together && barrier.leave(WAIT_SECONDS, TimeUnit.SECONDS);
            }));
        }
        for (Future<Boolean> future : all) {
            assertTrue(future.get(WAIT_SECONDS, TimeUnit.SECONDS));
        }
        threads.shutdown();
    }

    // Counters and values.

    @Test
    void sharedCountIsSeenByOthers() throws Exception {
        SharedCount first = closed(new SharedCount(one, root + "/count", 5));
        SharedCount second = closed(new SharedCount(two, root + "/count", 5));
        first.start();
        second.start();
        assertTrue(first.trySetCount(first.getVersionedValue(), 6));
        eventually("the new count", () -> second.getCount() == 6);
        assertTrue(second.trySetCount(second.getVersionedValue(), 7));
        eventually("the newer count", () -> first.getCount() == 7);
    }

    @Test
    void sharedValueRefusesAStaleWriter() throws Exception {
        SharedValue first = closed(new SharedValue(one, root + "/value", bytes("a")));
        first.start();
        var stale = first.getVersionedValue();
        assertTrue(first.trySetValue(stale, bytes("b")));
        assertFalse(first.trySetValue(stale, bytes("c")));
        assertArrayEquals(bytes("b"), first.getValue());
    }

    @Test
    void atomicNumbersAddUp() throws Exception {
        DistributedAtomicLong number = new DistributedAtomicLong(one, root + "/long", new RetryNTimes(20, 10));
        DistributedAtomicLong same = new DistributedAtomicLong(two, root + "/long", new RetryNTimes(20, 10));
        for (int i = 0; i < 10; i++) {
            assertTrue(number.increment().succeeded());
            assertTrue(same.add(2L).succeeded());
        }
        assertEquals(30L, number.get().postValue());
        DistributedAtomicInteger small = new DistributedAtomicInteger(one, root + "/int", new RetryNTimes(20, 10));
        assertTrue(small.initialize(5));
        assertFalse(small.compareAndSet(4, 9).succeeded());
        assertTrue(small.compareAndSet(5, 9).succeeded());
    }

    // Queues.

    @Test
    void simpleQueueKeepsItsOrder() throws Exception {
        SimpleDistributedQueue in = new SimpleDistributedQueue(one, root + "/simple");
        SimpleDistributedQueue out = new SimpleDistributedQueue(two, root + "/simple");
        for (int i = 0; i < 20; i++) {
            assertTrue(in.offer(bytes("" + i)));
        }
        for (int i = 0; i < 20; i++) {
            assertEquals("" + i, new String(out.poll(WAIT_SECONDS, TimeUnit.SECONDS)));
        }
        assertNull(out.poll());
    }

    private static final QueueSerializer<String> TEXT = new QueueSerializer<>() {
        @Override
        public byte[] serialize(String item) {
            return bytes(item);
        }

        @Override
        public String deserialize(byte[] data) {
            return new String(data, StandardCharsets.UTF_8);
        }
    };

    private static QueueConsumer<String> into(List<String> list) {
        return new QueueConsumer<>() {
            @Override
            public void consumeMessage(String message) {
                synchronized (list) {
                    list.add(message);
                }
            }

            @Override
            public void stateChanged(CuratorFramework client, ConnectionState state) {}
        };
    }

    private static int size(List<String> list) {
        synchronized (list) {
            return list.size();
        }
    }

    @Test
    void queueDeliversEverythingOnce() throws Exception {
        List<String> got = new ArrayList<>();
        DistributedQueue<String> in = closed(QueueBuilder.builder(one, null, TEXT, root + "/queue").buildQueue());
        in.start();
        for (String name : List.of("a", "b")) {
            DistributedQueue<String> out = closed(
                    QueueBuilder.builder(name.equals("a") ? one : two, into(got), TEXT, root + "/queue")
                            .lockPath(root + "/queue-locks").buildQueue());
            out.start();
        }
        for (int i = 0; i < 50; i++) {
            in.put("item-" + i);
        }
        eventually("50 items", () -> size(got) >= 50);
        synchronized (got) {
            assertEquals(50, new TreeSet<>(got).size());
        }
    }

    @Test
    void priorityAndDelayQueuesKeepTheirOrder() throws Exception {
        DistributedPriorityQueue<String> in =
                closed(QueueBuilder.builder(one, null, TEXT, root + "/priority").buildPriorityQueue(0));
        in.start();
        for (int priority : List.of(3, 1, 2)) {
            in.put("p" + priority, priority);
        }
        assertTrue(in.flushPuts(WAIT_SECONDS, TimeUnit.SECONDS));
        List<String> got = new ArrayList<>();
        closed(QueueBuilder.builder(two, into(got), TEXT, root + "/priority").buildPriorityQueue(0)).start();
        eventually("three items", () -> size(got) == 3);
        assertEquals(List.of("p1", "p2", "p3"), got);

        List<String> late = new ArrayList<>();
        DistributedDelayQueue<String> delayed =
                closed(QueueBuilder.builder(one, into(late), TEXT, root + "/delay").buildDelayQueue());
        delayed.start();
        delayed.put("later", System.currentTimeMillis() + 1_500);
        delayed.put("sooner", System.currentTimeMillis() + 300);
        eventually("two items", () -> size(late) == 2);
        assertEquals(List.of("sooner", "later"), late);
    }

    // Nodes.

    @Test
    void persistentNodeComesBack() throws Exception {
        PersistentNode node = closed(new PersistentNode(one, CreateMode.EPHEMERAL, false, root + "/kept", bytes("x")));
        node.start();
        assertTrue(node.waitForInitialCreate(WAIT_SECONDS, TimeUnit.SECONDS));
        two.delete().forPath(root + "/kept");
        eventually("the node again", () -> two.checkExists().forPath(root + "/kept") != null);
    }

    @Test
    void persistentTtlNodeIsKeptAliveAndThenExpires() throws Exception {
        PersistentTtlNode node = new PersistentTtlNode(one, root + "/ttl", 2_000, bytes("x"));
        node.start();
        assertTrue(node.waitForInitialCreate(WAIT_SECONDS, TimeUnit.SECONDS));
        Thread.sleep(4_000);
        assertNotNull(two.checkExists().forPath(root + "/ttl"));
        node.close();
        eventually("the node gone", () -> two.checkExists().forPath(root + "/ttl") == null);
    }

    @Test
    void groupMembersComeAndGo() throws Exception {
        GroupMember first = closed(new GroupMember(one, root + "/group", "a", bytes("1")));
        GroupMember second = new GroupMember(two, root + "/group", "b", bytes("2"));
        first.start();
        second.start();
        eventually("two members", () -> first.getCurrentMembers().size() == 2);
        second.close();
        eventually("one member", () -> first.getCurrentMembers().size() == 1);
    }

    // What recipes stand on.

    @Test
    void transactionIsWholeOrNothing() throws Exception {
        one.transaction().forOperations(
                one.transactionOp().create().forPath(root + "/tx", bytes("1")),
                one.transactionOp().setData().withVersion(0).forPath(root + "/tx", bytes("2")),
                one.transactionOp().check().withVersion(1).forPath(root + "/tx"));
        assertThrows(KeeperException.BadVersionException.class, () -> one.transaction().forOperations(
                one.transactionOp().create().forPath(root + "/tx2"),
                one.transactionOp().check().withVersion(9).forPath(root + "/tx")));
        assertNull(one.checkExists().forPath(root + "/tx2"));
    }

    @Test
    void containersVanishWhenEmptied() throws Exception {
        one.createContainers(root + "/container");
        one.create().forPath(root + "/container/child");
        one.delete().forPath(root + "/container/child");
        long end = System.nanoTime() + TimeUnit.SECONDS.toNanos(Long.getLong("castellan.containerSeconds", 30));
        while (two.checkExists().forPath(root + "/container") != null) {
            assertTrue(System.nanoTime() < end, "the empty container stays");
            Thread.sleep(100);
        }
    }

    @Test
    void protectedSequentialCreateFindsItsNode() throws Exception {
        String path = one.create().withProtection().withMode(CreateMode.EPHEMERAL_SEQUENTIAL).forPath(root + "/p-");
        assertTrue(ZKPaths.getNodeFromPath(path).endsWith("0000000000"), path);
    }

    /** All of it in use while the member that holds the first client's session is killed. */
    @TestFactory
    @Order(Integer.MAX_VALUE)
    List<DynamicTest> acrossAMemberKill() throws Exception {
        InterProcessMutex lock = new InterProcessMutex(one, root + "/lock");
        lock.acquire();
        LeaderLatch latch = closed(new LeaderLatch(one, root + "/latch", "one"));
        latch.start();
        assertTrue(latch.await(WAIT_SECONDS, TimeUnit.SECONDS));
        NodeCache cache = closed(new NodeCache(one, root + "/cached"));
        cache.start();
        SharedCount count = closed(new SharedCount(one, root + "/count", 1));
        count.start();
        DistributedBarrier barrier = new DistributedBarrier(one, root + "/barrier");
        barrier.setBarrier();
        SimpleDistributedQueue queue = new SimpleDistributedQueue(one, root + "/queue");
        queue.offer(bytes("before"));
        PersistentNode node = closed(new PersistentNode(one, CreateMode.EPHEMERAL, false, root + "/node", bytes("x")));
        node.start();
        assertTrue(node.waitForInitialCreate(WAIT_SECONDS, TimeUnit.SECONDS));
        long session = one.getZookeeperClient().getZooKeeper().getSessionId();
        long created = two.checkExists().forPath(root + "/node").getCzxid();

        return List.of(
                DynamicTest.dynamicTest("member killed", () -> killMemberOf(one)),
                DynamicTest.dynamicTest("session lives on another member", () -> {
                    eventually("a read", () -> reads(one));
                    assertEquals(session, one.getZookeeperClient().getZooKeeper().getSessionId());
                }),
                DynamicTest.dynamicTest("lock is still held", () -> {
                    InterProcessMutex other = new InterProcessMutex(two, root + "/lock");
                    assertFalse(other.acquire(300, TimeUnit.MILLISECONDS));
                    lock.release();
                    assertTrue(other.acquire(WAIT_SECONDS, TimeUnit.SECONDS));
                }),
                DynamicTest.dynamicTest("latch leads again", () ->
                        eventually("leadership", latch::hasLeadership)),
                DynamicTest.dynamicTest("cache sees a new change", () -> {
                    two.create().orSetData().forPath(root + "/cached", bytes("after"));
                    eventually("the change", () -> cache.getCurrentData() != null
                            && Arrays.equals(bytes("after"), cache.getCurrentData().getData()));
                }),
                DynamicTest.dynamicTest("count goes on", () -> {
                    eventually("a set", () -> count.trySetCount(count.getVersionedValue(), 2));
                    assertEquals(2, count.getCount());
                }),
                DynamicTest.dynamicTest("barrier opens", () -> {
                    barrier.removeBarrier();
                    assertTrue(new DistributedBarrier(two, root + "/barrier").waitOnBarrier(WAIT_SECONDS, TimeUnit.SECONDS));
                }),
                DynamicTest.dynamicTest("queue has lost nothing", () -> {
                    queue.offer(bytes("after"));
                    SimpleDistributedQueue out = new SimpleDistributedQueue(two, root + "/queue");
                    assertEquals("before", new String(out.poll(WAIT_SECONDS, TimeUnit.SECONDS)));
                    assertEquals("after", new String(out.poll(WAIT_SECONDS, TimeUnit.SECONDS)));
                }),
                DynamicTest.dynamicTest("persistent node was never away", () ->
                        assertEquals(created, two.checkExists().forPath(root + "/node").getCzxid())));
    }

    private static boolean listens(int port) {
        try (Socket socket = new Socket("127.0.0.1", port)) {
            return socket.isConnected();
        } catch (IOException refused) {
            return false;
        }
    }

    private static boolean reads(CuratorFramework client) {
        try {
            client.getData().forPath("/");
            return true;
        } catch (Exception error) {
            return false;
        }
    }

    /** The client's remote address names the member; its pid stands at the same place of the list. */
    private static void killMemberOf(CuratorFramework client) throws Exception {
        List<String> hosts = Arrays.asList(HOSTS.split(","));
        List<Long> pids = Arrays.stream(System.getProperty("castellan.pids").split(","))
                .map(Long::parseLong).collect(Collectors.toList());
        String text = client.getZookeeperClient().getZooKeeper().toString();
        int at = 0;
        while (!text.contains(":" + hosts.get(at).split(":")[1])) {
            at++;
        }
        ProcessHandle.of(pids.get(at)).orElseThrow().destroyForcibly();
        // Its parent may not have waited for it yet; what counts is that nobody listens.
        int port = Integer.parseInt(hosts.get(at).split(":")[1]);
        eventually("the port closed", () -> !listens(port));
    }
}
