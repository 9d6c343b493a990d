use crate::story::{
    Story, children, children2, create, create_by, delete, exists, get, m_check, m_create, m_delete, m_set,
    open_acl, set, set_acl,
};
use keeper_types::{OpCode, Request};

/// Which change fires which watch of another client, once.
pub fn once() -> Story {
    let mut story =
        Story::new("watches", "Which change fires which watch of another client, and that it fires once.");
    story.open('a');
    story.open('b');
    story.ask('a', &create("/watches", 0));
    let (node, child) = ("/watches/n", "/watches/n/c");
    // Each kind of watch against each kind of change; the second change of a kind is silent.
    for request in [exists(node, true), get("/watches", true), children("/watches", true)] {
        story.ask('b', &request);
    }
    story.ask('a', &create(node, 0));
    for watch in [exists(node, true), get(node, true), children(node, true), children2(node, true)] {
        for change in [
            set(node, "x", -1),
            set(node, "y", -1),
            set_acl(node, open_acl(), -1),
            create(child, 0),
            set(child, "x", -1),
            delete(child, -1),
            delete(node, -1),
            create(node, 0),
        ] {
            story.ask('b', &watch);
            story.ask('a', &change);
        }
        story.ask('a', &set(node, "once more", -1));
        story.ask('a', &create(child, 0));
        story.ask('a', &delete(child, -1));
    }
    // Watches of missing nodes: only exists leaves one.
    for watch in
        [get("/watches/none", true), children("/watches/none", true), children2("/watches/none", true)]
    {
        story.ask('b', &watch);
    }
    story.ask('a', &create("/watches/none", 0));
    story.ask('b', &exists("/watches/container", true));
    story.ask('a', &create_by(OpCode::CreateContainer, "/watches/container", 4, None));
    story.ask('b', &exists("/watches/ttl", true));
    story.ask('a', &create_by(OpCode::CreateTtl, "/watches/ttl", 5, Some(3_600_000)));
    story.ask('b', &exists("/watches/s-0000000005", true));
    story.ask('a', &create("/watches/s-", 2));
    story
}

/// A client's own events come before the reply, and one packet tells of several watches.
pub fn order() -> Story {
    let mut story = Story::new(
        "watch-order",
        "A client's own events come before the reply; one packet tells of several watches.",
    );
    story.open('a');
    story.open('b');
    let (top, node) = ("/watch-order", "/watch-order/n");
    story.ask('a', &create(top, 0));
    for request in [children(top, true), exists(node, true), create(node, 0)] {
        story.ask('a', &request);
    }
    for request in [get(node, true), exists(node, true), children(node, true), children(top, true)] {
        story.ask('a', &request);
        story.ask('b', &request);
    }
    story.ask('a', &delete(node, -1));
    story.ask('a', &create(node, 0));
    story.ask_together(
        'a',
        &[get(node, true), set(node, "1", -1), get(node, true), set(node, "2", -1), get(node, false)],
    );
    story.ask_together(
        'a',
        &[
            exists("/watch-order/x", true),
            create("/watch-order/x", 0),
            delete("/watch-order/x", -1),
            exists("/watch-order/x", true),
            create("/watch-order/x", 0),
        ],
    );
    story.ask_together(
        'a',
        &[children(top, true), Request::Sync(top), create("/watch-order/y", 1), Request::CloseSession],
    );
    story
}

/// The events of a multi: all under its zxid, in the order of its operations.
pub fn of_multi() -> Story {
    let mut story = Story::new(
        "watch-multi",
        "The events of a multi: all under its zxid, in the order of its operations.",
    );
    story.open('a');
    story.open('b');
    let top = "/watch-multi";
    story.ask('a', &create(top, 0));
    for client in ['a', 'b'] {
        for request in [
            children(top, true),
            get(top, true),
            exists("/watch-multi/a", true),
            exists("/watch-multi/b", true),
        ] {
            story.ask(client, &request);
        }
    }
    story.ask(
        'a',
        &Request::Multi(vec![
            m_create("/watch-multi/a", 0),
            m_set(top, "x", -1),
            m_create("/watch-multi/b", 0),
            m_set("/watch-multi/a", "x", -1),
        ]),
    );
    for request in [children(top, true), get("/watch-multi/a", true), get("/watch-multi/b", true)] {
        story.ask('b', &request);
    }
    story.ask('a', &Request::Multi(vec![m_delete("/watch-multi/b", -1), m_check("/watch-multi/a", 9)]));
    story.ask(
        'a',
        &Request::Multi(vec![
            m_delete("/watch-multi/b", -1),
            m_set("/watch-multi/a", "y", -1),
            m_delete("/watch-multi/a", -1),
            m_create("/watch-multi/a", 0),
        ]),
    );
    story
}
