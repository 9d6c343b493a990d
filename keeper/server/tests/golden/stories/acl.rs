use crate::story::{
    Story, acl, add_watch, auth, children, children2, create, create_with, delete, exists, get, m_check,
    m_set, open_acl, set, set_acl, set_watches,
};
use keeper_types::{Perms, Request};

const BOB: &str = "digest";

fn only(perms: Perms) -> Vec<keeper_types::Acl> {
    vec![acl(perms, "world", "anyone")]
}

/// Each permission alone against each operation.
pub fn permissions() -> Story {
    let mut story = Story::new("permissions", "Each permission alone against each operation.");
    story.open('a');
    story.ask('a', &create("/permissions", 0));
    let each = [
        ("/permissions/r", Perms::READ),
        ("/permissions/w", Perms::WRITE),
        ("/permissions/c", Perms::CREATE),
        ("/permissions/d", Perms::DELETE),
        ("/permissions/a", Perms::ADMIN),
        ("/permissions/0", Perms(0)),
        ("/permissions/64", Perms(64)),
    ];
    for (path, perms) in each {
        let child = format!("{path}/child");
        story.ask('a', &create_with(path, only(perms)));
        for request in [
            get(path, false),
            get(path, true),
            exists(path, true),
            children(path, false),
            children2(path, false),
            Request::GetAcl(path),
            Request::GetAllChildrenNumber(path),
            set(path, "x", -1),
            set(path, "x", 77),
            create(&child, 0),
            create(&child, 2),
            delete(&child, -1),
            delete(&format!("{path}/none"), -1),
            Request::Multi(vec![m_check(path, -1)]),
            Request::Multi(vec![m_set(path, "y", -1)]),
            set_acl(path, only(perms), 77),
            set_acl(path, only(perms), -1),
        ] {
            story.ask('a', &request);
        }
    }
    // A node goes by its parent's permissions.
    story.ask('a', &delete("/permissions/r", -1));
    story
}

/// What an ACL may name, and what `auth` stands for.
pub fn identities() -> Story {
    let mut story = Story::new("identities", "What an ACL may name, what auth stands for, who is who.");
    story.open('a');
    story.ask('a', &create("/identities", 0));
    let hash = "bob:bob-s-hash";
    for list in [
        vec![],
        vec![acl(Perms::ALL, "world", "everyone")],
        vec![acl(Perms::ALL, "nonsense", "x")],
        vec![acl(Perms::ALL, "super", "x")],
        vec![acl(Perms::ALL, "", "")],
        vec![acl(Perms::ALL, "auth", "")],
        vec![acl(Perms::ALL, BOB, "bob")],
        vec![acl(Perms::ALL, BOB, "a:b:c")],
        vec![acl(Perms::ALL, "ip", "10.0.0.0/8"), acl(Perms::ALL, "ip", "127.0.0.1")],
        vec![acl(Perms::ALL, "ip", "10.0.0.0/33")],
        vec![
            acl(Perms::READ, "world", "anyone"),
            acl(Perms::ALL, BOB, hash),
            acl(Perms::WRITE, "ip", "127.0.0.1"),
        ],
        vec![acl(Perms::READ, "world", "anyone"); 3],
    ] {
        story.ask('a', &create_with("/identities/n", list));
        story.ask('a', &Request::GetAcl("/identities/n"));
        story.ask('a', &set("/identities/n", "x", -1));
        story.ask('a', &delete("/identities/n", -1));
    }
    for request in [
        Request::WhoAmI,
        auth(BOB, "bob:secret"),
        auth(BOB, "bob:secret"),
        auth("ip", "1.2.3.4"),
        Request::WhoAmI,
        create_with("/identities/auth", vec![acl(Perms::ALL, "auth", "ignored")]),
        create_with("/identities/auth", vec![acl(Perms::READ, "auth", "")]),
        Request::GetAcl("/identities/auth"),
        set_acl(
            "/identities/auth",
            vec![acl(Perms::ALL, "auth", ""), acl(Perms::READ, "world", "anyone")],
            0,
        ),
        set_acl("/identities/auth", vec![], 1),
        set_acl("/identities/auth", vec![acl(Perms::ALL, "auth", "")], 1),
        get("/identities/auth", false),
        // Behind what auth stood for: the order of several is that of a hash set.
        auth(BOB, "carol:secret:with:colons"),
        auth(BOB, "nobody"),
        Request::WhoAmI,
    ] {
        story.ask('a', &request);
    }
    story.open('b');
    for request in [
        Request::WhoAmI,
        get("/identities/auth", false),
        exists("/identities/auth", false),
        Request::GetAcl("/identities/auth"),
        auth(BOB, "bob:wrong"),
        get("/identities/auth", false),
        auth(BOB, "bob:secret"),
        get("/identities/auth", false),
        auth("nonsense", "x"),
    ] {
        story.ask('b', &request);
    }
    story
}

/// Hashes of digests are for administrators, and `super` may do everything.
pub fn digests() -> Story {
    let mut story =
        Story::new("digests", "Hashes of digests are for administrators; super may do everything.");
    story.open('a');
    story.open('b');
    story.open('s');
    story.ask('a', &auth(BOB, "bob:secret"));
    let readable = vec![acl(Perms::ALL, "auth", ""), acl(Perms::READ, "world", "anyone")];
    for request in [
        create_with("/digests", readable),
        Request::GetAcl("/digests"),
        create_with("/digests/own", vec![acl(Perms::ALL, "auth", "")]),
        create_with(
            "/digests/admin",
            vec![acl(Perms::ADMIN, "world", "anyone"), acl(Perms::ALL, BOB, "x:y")],
        ),
        create_with(
            "/digests/plain",
            vec![
                acl(Perms::READ, "world", "anyone"),
                acl(Perms::ALL, "ip", "127.0.0.1"),
                acl(Perms::READ, BOB, "x:y"),
            ],
        ),
    ] {
        story.ask('a', &request);
    }
    story.ask('s', &auth(BOB, "super:test"));
    story.ask('s', &Request::WhoAmI);
    for client in ['b', 's'] {
        for path in ["/digests", "/digests/own", "/digests/admin", "/digests/plain"] {
            story.ask(client, &Request::GetAcl(path));
            story.ask(client, &get(path, false));
        }
    }
    for request in [
        set("/digests/own", "x", -1),
        set_acl("/digests/own", open_acl(), -1),
        create("/digests/own/x", 0),
        create_with("/digests/of-super", vec![acl(Perms::ALL, "auth", "")]),
        Request::GetAcl("/digests/of-super"),
    ] {
        story.ask('s', &request);
    }
    story
}

/// Watches tell nobody of nodes that he may not read.
pub fn watches() -> Story {
    let mut story = Story::new("watch-acl", "Whom a watch tells of nodes that he may not read.");
    story.open('a');
    story.open('b');
    let (top, hidden, child, turns) =
        ("/watch-acl", "/watch-acl/hidden", "/watch-acl/hidden/c", "/watch-acl/turns");
    let own = || vec![acl(Perms::ALL, "auth", "")];
    story.ask('a', &create(top, 0));
    story.ask('a', &auth(BOB, "bob:secret"));
    story.ask('b', &add_watch(top, 1));
    for change in [
        create_with(hidden, own()),
        set(hidden, "x", -1),
        create(child, 0),
        set(child, "x", -1),
        delete(child, -1),
        delete(hidden, -1),
    ] {
        story.ask('a', &change);
    }
    story.open('c');
    for change in [
        create_with(hidden, own()),
        set(hidden, "x", -1),
        create(child, 0),
        delete(child, -1),
        set(hidden, "y", -1),
        delete(hidden, -1),
    ] {
        // Each of these but exists of a missing node is refused, and leaves nothing.
        for watch in [exists(hidden, true), get(hidden, true), children(hidden, true)] {
            story.ask('c', &watch);
        }
        story.ask('a', &change);
    }
    // A watch left while it could be read.
    story.open('d');
    story.ask('a', &create(turns, 0));
    for watch in [get(turns, true), children(turns, true), add_watch(turns, 0), children(top, true)] {
        story.ask('d', &watch);
    }
    story.ask('a', &set_acl(turns, own(), -1));
    story.ask('a', &set(turns, "x", -1));
    story.ask('a', &create("/watch-acl/turns/c", 0));
    story.ask('a', &set_acl(turns, open_acl(), -1));
    story.ask('a', &set(turns, "y", -1));
    story.ask('a', &set_acl(turns, own(), -1));
    story.ask('d', &set_watches(0, [&[turns], &[turns], &[turns], &[], &[]]));
    story.ask('a', &set(turns, "z", -1));
    story.ask('a', &Request::Multi(vec![m_set(turns, "1", -1), m_set(top, "1", -1)]));
    story.ask('a', &delete("/watch-acl/turns/c", -1));
    story.ask('a', &delete(turns, -1));
    // One who becomes able to.
    story.ask('a', &create_with(turns, own()));
    story.ask('d', &auth(BOB, "bob:secret"));
    story.ask('a', &set(turns, "x", -1));
    story
}
