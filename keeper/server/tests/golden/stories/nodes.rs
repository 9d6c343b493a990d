use crate::story::{
    Story, children, children2, create, create_by, create_with, delete, exists, get, making, open_acl, set,
    set_acl,
};
use keeper_types::{CreateRequest, OpCode, Request, SetDataRequest};

/// Each operation once.
pub fn operations() -> Story {
    let mut story = Story::new("operations", "Each operation once.");
    story.open('a');
    for request in [
        create("/operations", 0),
        create_by(OpCode::Create2, "/operations/2", 0, None),
        create("/operations", 0),
        create_by(OpCode::CreateContainer, "/operations/container", 4, None),
        create_by(OpCode::CreateTtl, "/operations/ttl", 5, Some(3_600_000)),
        exists("/operations/2", false),
        exists("/operations/none", false),
        get("/operations/2", false),
        get("/operations/none", false),
        set("/operations/2", "longer", 0),
        set("/operations/2", "longer", 7),
        set("/operations/none", "", -1),
        children("/operations", false),
        children2("/operations", false),
        children("/operations/none", false),
        children2("/operations/none", false),
        Request::GetAcl("/operations"),
        Request::GetAcl("/operations/none"),
        set_acl("/operations", open_acl(), 0),
        set_acl("/operations", open_acl(), 7),
        set_acl("/operations/none", open_acl(), -1),
        Request::Sync("/operations"),
        Request::Sync("/operations/none"),
        Request::GetEphemerals("/operations"),
        Request::GetAllChildrenNumber("/operations"),
        Request::GetAllChildrenNumber("/operations/none"),
        Request::WhoAmI,
        Request::Ping,
        delete("/operations/2", 7),
        delete("/operations", -1),
        delete("/operations/2", 1),
        delete("/operations/2", -1),
        Request::CloseSession,
    ] {
        story.ask('a', &request);
    }
    story
}

/// What a path may be, operation by operation.
pub fn paths() -> Story {
    let mut story = Story::new("paths", "What a path may be, operation by operation.");
    story.open('a');
    story.ask('a', &create("/paths", 0));
    let odd = [
        "/",
        "",
        "paths",
        "/paths/",
        "/paths//x",
        "/paths/../x",
        "/paths/./x",
        "/paths/.",
        "/paths/..",
        "/paths/\0",
        "/paths/\u{1}",
        "/paths/\u{1f}",
        "/paths/\u{7f}",
        "/paths/\u{e000}",
        "/paths/\u{fff0}",
        "/paths/\u{1f600}",
        "/paths/é",
        "/none/x",
        "/paths/x/",
    ];
    for path in odd {
        story.ask('a', &create(path, 0));
        story.ask('a', &exists(path, false));
        story.ask('a', &get(path, false));
        story.ask('a', &children(path, false));
        story.ask('a', &Request::GetAcl(path));
        if path != "/" {
            story.ask('a', &set(path, "", -1));
            story.ask('a', &set_acl(path, open_acl(), -1));
        }
        story.ask('a', &delete(path, -1));
        // ZooKeeper writes characters beyond the basic plane back as bytes that are not UTF-8.
        if path.chars().all(|character| character <= '\u{ffff}') {
            story.ask('a', &Request::Sync(path));
        }
    }
    for path in ["/zookeeper", "/zookeeper/quota", "/zookeeper/config"] {
        story.ask('a', &delete(path, -1));
        story.ask('a', &create(path, 0));
    }
    for request in [
        create("/zookeeper/mine", 0),
        delete("/zookeeper/mine", -1),
        set("/zookeeper/config", "x", -1),
        set("/", "root", -1),
        get("/", false),
        set("/", "", 1),
    ] {
        story.ask('a', &request);
    }
    story
}

/// The modes of a create, operation by operation.
pub fn modes() -> Story {
    let mut story = Story::new("modes", "The modes of a create, and how long a node lives.");
    story.open('a');
    story.ask('a', &create("/modes", 0));
    for op in [OpCode::Create, OpCode::Create2, OpCode::CreateContainer, OpCode::CreateTtl] {
        for flags in [-1, 0, 1, 2, 3, 4, 5, 6, 7] {
            let path = format!("/modes/{}-{flags}-", op.as_i32());
            let ttl_ms = (op == OpCode::CreateTtl).then_some(3_600_000);
            let request = create_by(op, &path, flags, ttl_ms);
            // Without a session to go with, ephemeral is all the same there.
            story.ask('a', &request);
        }
    }
    for ttl_ms in [0, -1, 1 << 40, (1 << 40) - 1, i64::MAX] {
        story.ask('a', &create_by(OpCode::CreateTtl, "/modes/ttl", 5, Some(ttl_ms)));
    }
    for request in [
        // The owners of containers and TTL nodes are not shown.
        exists("/modes/ttl", false),
        create("/modes/ttl/child", 0),
        delete("/modes/ttl", -1),
        exists("/modes/19-4-", false),
        create("/modes/19-4-/child", 0),
        create("/modes/1-1-/child", 0),
        create("/modes/1-1-/child", 1),
        create("/modes/1-1-/child", 2),
        Request::GetEphemerals(""),
        Request::GetEphemerals("/modes/15"),
        Request::GetAllChildrenNumber("/modes"),
        children2("/modes", false),
    ] {
        story.ask('a', &request);
    }
    let null = CreateRequest { data: None, ..making("/modes/null", 0) };
    story.ask('a', &Request::Create(OpCode::Create, null));
    story.ask('a', &get("/modes/null", false));
    story.ask('a', &set("/modes/null", "", -1));
    story.ask('a', &get("/modes/null", false));
    story.ask('a', &Request::SetData(SetDataRequest { path: "/modes/null", data: None, version: -1 }));
    story.ask('a', &get("/modes/null", false));
    for empty in [vec![], vec![crate::story::acl(keeper_types::Perms(0), "world", "anyone")]] {
        story.ask('a', &create_with("/modes/acl", empty));
        story.ask('a', &get("/modes/acl", false));
    }
    story
}

/// Sequence numbers count creations, cversion shows deletions too.
pub fn sequences() -> Story {
    let mut story =
        Story::new("sequences", "Sequence numbers count creations; cversion shows deletions too.");
    story.open('a');
    for request in [
        create("/sequences", 0),
        create("/sequences/n-", 2),
        create("/sequences/n-", 2),
        create("/sequences/n-", 2),
        exists("/sequences", false),
        delete("/sequences/n-0000000000", -1),
        delete("/sequences/n-0000000001", -1),
        exists("/sequences", false),
        create("/sequences/n-", 2),
        create("/sequences/plain", 0),
        create("/sequences/plain", 0),
        create("/sequences/e-", 3),
        create("/sequences/", 2),
        create("/sequences/plain/", 2),
        delete("/sequences/plain", -1),
        create_by(OpCode::Create2, "/sequences/two-", 2, None),
        create_by(OpCode::CreateTtl, "/sequences/ttl-", 6, Some(3_600_000)),
        create("/sequences/none/n-", 2),
        create("/sequences/n-", 2),
        exists("/sequences", false),
        children("/sequences", false),
    ] {
        story.ask('a', &request);
    }
    story
}

/// Which change moves which field of a Stat, on the node and on its parent.
pub fn stats() -> Story {
    let mut story =
        Story::new("stats", "Which change moves which field of a Stat, on the node and on its parent.");
    story.open('a');
    let (parent, node) = ("/stats", "/stats/node");
    story.ask('a', &create(parent, 0));
    for change in [
        create(node, 0),
        set(node, "12345", 0),
        set(node, "", 1),
        set_acl(node, open_acl(), 0),
        create("/stats/node/child", 0),
        set("/stats/node/child", "x", -1),
        set_acl("/stats/node/child", open_acl(), -1),
        create("/stats/node/child/grandchild", 0),
        delete("/stats/node/child/grandchild", -1),
        delete("/stats/node/child", -1),
        create("/stats/node/child", 1),
        delete("/stats/node/child", 0),
        set(parent, "x", 0),
        delete(node, 1),
        delete(node, 2),
        create(node, 0),
    ] {
        story.ask('a', &change);
        story.ask('a', &exists(parent, false));
        story.ask('a', &exists(node, false));
    }
    story
}
