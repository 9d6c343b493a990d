// node-zookeeper-client (no native code) against a server; its own tests need none. Prints TAP.
//     node pure_client.js HOST:PORT
'use strict';

const zookeeper = require('node-zookeeper-client');

const TIME_MAX_MS = 30000;
const client = zookeeper.createClient(process.argv[2], { sessionTimeout: 10000 });
const open = zookeeper.ACL.OPEN_ACL_UNSAFE;
const root = `/pure-client-${process.pid}-${Date.now()}`;

// One call as a promise of its results.
const call = (name, ...values) =>
  new Promise((resolve, reject) => {
    client[name](...values, (error, ...results) => (error ? reject(error) : resolve(results)));
  });

const nameOfError = async (promise) => {
  try {
    await promise;
    return 'no error';
  } catch (error) {
    return error.getName ? error.getName() : String(error);
  }
};

const check = (condition, what) => {
  if (!condition) throw new Error(what);
};

const cases = {
  async create_and_read() {
    await call('create', root, Buffer.from('one'), open, zookeeper.CreateMode.PERSISTENT);
    const [data, stat] = await call('getData', root);
    check(data.toString() === 'one' && stat.version === 0, 'data or version');
  },
  async data_watch_fires_once() {
    let fired = 0;
    await call('getData', root, (event) => {
      check(event.getName() === 'NODE_DATA_CHANGED', event.getName());
      fired += 1;
    });
    await call('setData', root, Buffer.from('two'), 0);
    await call('setData', root, Buffer.from('three'), 1);
    const [data] = await call('getData', root);
    check(data.toString() === 'three' && fired === 1, `fired ${fired} times`);
  },
  async wrong_version_is_refused() {
    check((await nameOfError(call('setData', root, Buffer.from('x'), 77))) === 'BAD_VERSION', 'no BAD_VERSION');
  },
  async sequential_ephemerals_are_numbered() {
    const mode = zookeeper.CreateMode.EPHEMERAL_SEQUENTIAL;
    const [first] = await call('create', `${root}/n-`, Buffer.from(''), open, mode);
    const [second] = await call('create', `${root}/n-`, Buffer.from(''), open, mode);
    check(first.endsWith('n-0000000000') && second.endsWith('n-0000000001'), `${first} ${second}`);
    const [children, stat] = await call('getChildren', root);
    check(children.length === 2 && stat.cversion === 2, 'children or cversion');
  },
  async node_with_children_stays() {
    check((await nameOfError(call('remove', root, -1))) === 'NOT_EMPTY', 'no NOT_EMPTY');
  },
  async transaction_is_whole_or_nothing() {
    const commit = (transaction) =>
      new Promise((resolve) => transaction.commit((error, results) => resolve({ error, results })));
    const good = await commit(
      client.transaction().create(`${root}/t`).setData(root, Buffer.from('four')).check(root, 3).remove(`${root}/t`));
    check(!good.error && good.results.length === 4, `good: ${good.error}`);
    const bad = await commit(client.transaction().create(`${root}/t`).check(root, 99));
    check(bad.error, 'the bad one was committed');
    const [stat] = await call('exists', `${root}/t`);
    check(!stat, 'a node of the bad one is there');
  },
  async deep_paths_and_acls() {
    await call('mkdirp', `${root}/a/b/c`);
    const [acls] = await call('getACL', `${root}/a/b/c`);
    check(acls.length === 1 && acls[0].id.scheme === 'world', 'ACL');
    client.addAuthInfo('digest', Buffer.from('u:p'));
    const own = [new zookeeper.ACL(zookeeper.Permission.ALL, new zookeeper.Id('auth', ''))];
    await call('setACL', `${root}/a/b/c`, own, -1);
    const [after] = await call('getACL', `${root}/a/b/c`);
    check(after[0].id.scheme === 'digest' && after[0].id.id.startsWith('u:'), JSON.stringify(after));
  },
  async all_of_it_can_be_removed() {
    const [children] = await call('getChildren', root);
    const below = children.filter((name) => name !== 'a').map((name) => `${root}/${name}`);
    for (const path of [`${root}/a/b/c`, `${root}/a/b`, `${root}/a`, ...below, root]) {
      await call('remove', path, -1);
    }
    const [stat] = await call('exists', root);
    check(!stat, 'still there');
  },
};

const end = (code) => {
  client.close();
  setTimeout(() => process.exit(code), 300);
};

client.once('connected', async () => {
  console.log(`1..${Object.keys(cases).length}`);
  let number = 0;
  for (const [name, run] of Object.entries(cases)) {
    number += 1;
    try {
      await run();
      console.log(`ok ${number} - ${name}`);
    } catch (error) {
      console.log(`not ok ${number} - ${name}\n# ${error}`);
    }
  }
  end(0);
});
setTimeout(() => {
  console.log('Bail out! no end in time');
  process.exit(2);
}, TIME_MAX_MS).unref();
client.connect();
