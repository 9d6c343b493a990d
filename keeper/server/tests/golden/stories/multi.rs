use crate::story::{
    Story, acl, auth, children, children2, create, create_with, delete, exists, get, m_check, m_create,
    m_create_by, m_delete, m_set, reading,
};
use keeper_types::{OpCode, Perms, Request};

/// Multis that succeed.
pub fn whole() -> Story {
    let mut story =
        Story::new("multi", "Multis that succeed: one zxid, each operation sees those before it.");
    story.open('a');
    story.ask('a', &create("/multi", 0));
    for ops in [
        vec![],
        vec![m_check("/multi", 0)],
        vec![
            m_create("/multi/a", 0),
            m_set("/multi/a", "x", 0),
            m_check("/multi/a", 1),
            m_delete("/multi/a", 1),
        ],
        vec![m_create("/multi/n-", 2), m_create("/multi/n-", 2), m_delete("/multi/n-0000000001", -1)],
        vec![m_create("/multi/n-", 2), m_create("/multi/e", 1)],
        vec![
            m_create_by(OpCode::Create2, "/multi/two", 0, None),
            m_create_by(OpCode::CreateContainer, "/multi/container", 4, None),
            m_create_by(OpCode::CreateTtl, "/multi/ttl", 5, Some(3_600_000)),
        ],
        vec![
            m_create("/multi/p", 0),
            m_create("/multi/p/c", 0),
            m_delete("/multi/p/c", 0),
            m_delete("/multi/p", 0),
        ],
        vec![m_delete("/multi/e", -1), m_create("/multi/e", 0), m_set("/multi/e", "again", 0)],
        vec![m_set("/multi", "1", -1), m_set("/multi", "2", -1), m_set("/multi", "3", 2)],
    ] {
        story.ask('a', &Request::Multi(ops));
        story.ask('a', &exists("/multi", false));
    }
    for path in ["/multi/two", "/multi/container", "/multi/ttl", "/multi/e", "/multi/a"] {
        story.ask('a', &exists(path, false));
    }
    story.ask('a', &Request::GetEphemerals("/multi"));
    story.ask('a', &children2("/multi", false));
    story
}

/// Multis that fail: what each record says, and that nothing changes but the zxid.
pub fn failed() -> Story {
    let mut story =
        Story::new("multi-failed", "Multis that fail: what each record says, and that nothing changes.");
    story.open('a');
    story.open('b');
    story.ask('a', &create("/multi-failed", 0));
    story.ask('a', &create("/multi-failed/a", 0));
    story.ask('a', &create_with("/multi-failed/r", vec![acl(Perms::READ, "world", "anyone")]));
    story.ask('b', &get("/multi-failed/a", true));
    story.ask('b', &exists("/multi-failed/x", true));
    story.ask('b', &children("/multi-failed", true));
    for ops in [
        vec![m_check("/multi-failed/a", 7)],
        vec![m_check("/multi-failed/none", -1), m_create("/multi-failed/x", 0)],
        vec![m_create("/multi-failed/x", 0), m_check("/multi-failed/a", 7), m_delete("/multi-failed/a", -1)],
        vec![
            m_create("/multi-failed/x", 0),
            m_set("/multi-failed/a", "x", -1),
            m_create("/multi-failed/x", 0),
        ],
        vec![m_delete("/multi-failed/a", -1), m_set("/multi-failed/a", "x", -1)],
        vec![
            m_create("/multi-failed/n-", 2),
            m_create("/multi-failed/n-", 2),
            m_delete("/multi-failed/n-7", -1),
        ],
        vec![m_create("/multi-failed/e", 1), m_create("/multi-failed/e/c", 0)],
        vec![
            m_create("/multi-failed/p", 0),
            m_create("/multi-failed/p/c", 0),
            m_delete("/multi-failed/p", -1),
        ],
        vec![m_set("/multi-failed/r", "x", -1)],
        vec![m_create("/multi-failed/r/c", 0), m_check("/multi-failed/none", -1)],
        vec![m_create("/multi-failed/x", 7)],
        vec![m_create("/multi-failed/x", -1)],
        vec![m_create("/multi-failed/x", 5)],
        vec![m_create("/multi-failed/x", 6)],
        vec![m_create_by(OpCode::Create2, "/multi-failed/x", 7, None)],
        vec![m_create_by(OpCode::Create2, "/multi-failed/x", 5, None)],
        vec![m_create_by(OpCode::CreateContainer, "/multi-failed/x", 7, None)],
        vec![m_create_by(OpCode::CreateContainer, "/multi-failed/x", 5, None)],
        vec![m_create_by(OpCode::CreateTtl, "/multi-failed/x", 7, Some(1_000))],
        vec![m_create_by(OpCode::CreateTtl, "/multi-failed/x", 0, Some(1_000))],
        vec![m_check("/multi-failed/none", -1), m_create("/multi-failed/x", 7)],
        vec![m_create("/multi-failed/x", 0), m_create("/multi-failed/y", 7)],
        vec![m_create("/multi-failed/k", 4), m_check("/multi-failed/none", -1)],
        vec![m_create("bad", 0), m_create("/multi-failed/x", 0)],
        vec![m_delete("/", -1)],
        vec![
            m_create_by(OpCode::CreateTtl, "/multi-failed/ttl", 5, Some(-1)),
            m_create_by(OpCode::CreateContainer, "/multi-failed/c", 4, None),
        ],
        vec![
            m_create_by(OpCode::CreateContainer, "/multi-failed/c", 4, None),
            m_create_by(OpCode::Create2, "/multi-failed/c", 0, None),
        ],
    ] {
        story.ask('a', &Request::Multi(ops));
        story.ask('a', &exists("/multi-failed", false));
    }
    story.ask('a', &get("/multi-failed/a", false));
    story.ask('a', &create("/multi-failed/n-", 2));
    story.ask('a', &children2("/multi-failed", false));
    story
}

/// Reads in one request, each answered for itself.
pub fn reads() -> Story {
    let mut story = Story::new("multi-read", "Reads in one request, each answered for itself.");
    story.open('a');
    story.ask('a', &create("/multi-read", 0));
    story.ask('a', &create("/multi-read/c", 0));
    story.ask('a', &create_with("/multi-read/w", vec![acl(Perms::WRITE, "world", "anyone")]));
    let read = |path| reading(path, false);
    let data = |path| Request::GetData(read(path));
    let names = |path| Request::GetChildren(read(path));
    for reads in [
        vec![],
        vec![data("/multi-read")],
        vec![data("/multi-read"), names("/multi-read"), data("/multi-read/none"), names("/multi-read/c")],
        vec![names("/multi-read/none")],
        vec![data("/multi-read/w"), names("/multi-read/w"), data("/multi-read/c")],
        vec![data("bad"), data("/multi-read/c")],
    ] {
        story.ask('a', &Request::MultiRead(reads));
    }
    story.ask('a', &auth("digest", "u:p"));
    story.ask('a', &delete("/multi-read/c", -1));
    story
}
