use crate::story::{
    Story, children2, create, create_by, create_with, delete, exists, get, m_create, m_set, open_acl, set,
};
use keeper_types::{CreateRequest, OpCode, Request};

/// Quotas that are held.
pub fn quotas() -> Story {
    let mut story = Story::new("quotas", "Quotas: what is counted, and hard limits that are held.");
    story.open('a');
    let limits = |data: &'static str| {
        Request::Create(
            OpCode::Create,
            CreateRequest {
                path: "/zookeeper/quota/quotas/zookeeper_limits",
                data: Some(data.as_bytes()),
                acl: open_acl(),
                flags: 0,
                ttl_ms: None,
            },
        )
    };
    let usage = Request::Create(
        OpCode::Create,
        CreateRequest {
            path: "/zookeeper/quota/quotas/zookeeper_stats",
            data: Some(b"count=0,bytes=0"),
            acl: open_acl(),
            flags: 0,
            ttl_ms: None,
        },
    );
    for request in [
        create("/quotas", 0),
        create("/quotas/one", 0),
        create_with("/zookeeper/quota/quotas", open_acl()),
        limits("count=-1,bytes=-1;byteHardLimit=20;countHardLimit=4"),
        usage,
        get("/zookeeper/quota/quotas/zookeeper_stats", false),
        create("/quotas/two", 0),
        get("/zookeeper/quota/quotas/zookeeper_stats", false),
        create("/quotas/three", 0),
        create("/quotas/four", 0),
        set("/quotas/one", "123456789", -1),
        set("/quotas/one", "1234567890123", -1),
        set("/quotas/one", "", -1),
        Request::Multi(vec![m_set("/quotas/two", "", -1), m_create("/quotas/five", 0)]),
        Request::Multi(vec![m_set("/quotas/two", "123456789012345678901", -1)]),
        get("/zookeeper/quota/quotas/zookeeper_stats", false),
        delete("/quotas/three", -1),
        get("/zookeeper/quota/quotas/zookeeper_stats", false),
        delete("/zookeeper/quota/quotas/zookeeper_limits", -1),
        create("/quotas/six", 0),
        create("/quotas/seven", 0),
        create("/quotas/eight", 0),
        children2("/quotas", false),
    ] {
        story.ask('a', &request);
    }
    story
}

/// Requests that no client should send.
pub fn unknown() -> Story {
    let mut story = Story::new("unknown", "Requests that no client should send.");
    story.open('a');
    story.ask('a', &create("/unknown", 0));
    story.ask('a', &create_by(OpCode::CreateContainer, "/unknown/c", 4, None));
    story.ask('a', &exists("/unknown", false));
    // A frame longer than is allowed, by its length alone; and one of a negative length.
    story.raw('a', &[], &0x0010_0000_u32.to_be_bytes());
    story.open('b');
    story.raw('b', &[], &(-5_i32).to_be_bytes());
    story.open('c');
    story.ask('c', &exists("/unknown", false));
    // The last step: ZooKeeper ends the connection after this answer, and we do not. Length, xid, operation, a string.
    let mut bytes = vec![0, 0, 0, 13, 0, 0, 0, 77];
    bytes.extend(999_i32.to_be_bytes());
    bytes.extend([0, 0, 0, 1, b'/']);
    story.raw('c', &[999], &bytes);
    story
}
