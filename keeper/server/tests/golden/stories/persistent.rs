use crate::story::{
    Story, add_watch, check_watches, children, create, delete, exists, get, m_create, m_delete, m_set,
    remove_watches, set,
};
use keeper_types::Request;

/// What a persistent and a persistent recursive watch hear.
pub fn modes() -> Story {
    let mut story = Story::new("persistent", "What a persistent and a persistent recursive watch hear.");
    for client in ['a', 'p', 'r'] {
        story.open(client);
    }
    let top = "/persistent";
    story.ask('p', &add_watch(top, 0));
    story.ask('r', &add_watch(top, 1));
    for change in [
        create(top, 0),
        set(top, "x", -1),
        create("/persistent/c", 0),
        set("/persistent/c", "x", -1),
        create("/persistent/c/d", 0),
        set("/persistent/c/d", "x", -1),
        delete("/persistent/c/d", -1),
        delete("/persistent/c", -1),
        Request::Multi(vec![
            m_create("/persistent/m", 0),
            m_set(top, "y", -1),
            m_delete("/persistent/m", -1),
        ]),
        create("/persistents", 0),
        delete(top, -1),
        create(top, 0),
    ] {
        story.ask('a', &change);
    }
    for mode in [2, -1] {
        story.ask('p', &add_watch(top, mode));
    }
    for path in ["bad", "/persistent/", "/persistent//x", ""] {
        story.ask('p', &add_watch(path, 0));
    }
    // A client's own changes.
    story.ask_together('r', &[set(top, "1", -1), create("/persistent/own", 1), set(top, "2", -1)]);
    story.ask('r', &Request::CloseSession);
    story.ask('a', &add_watch("/", 1));
    story.ask('a', &set(top, "3", -1));
    story
}

/// Watches of several kinds of one client on one path.
pub fn kept_apart() -> Story {
    let mut story = Story::new("watch-kinds", "Watches of several kinds of one client on one path.");
    story.open('a');
    story.open('b');
    let top = "/watch-kinds";
    story.ask('a', &create(top, 0));
    for (first, second) in [(0, 1), (1, 0), (0, 0), (1, 1)] {
        story.ask('b', &add_watch(top, first));
        story.ask('b', &add_watch(top, second));
        story.ask('b', &get(top, true));
        story.ask('b', &children(top, true));
        story.ask('a', &set(top, "x", -1));
        story.ask('a', &set(top, "y", -1));
        story.ask('a', &create("/watch-kinds/c", 0));
        story.ask('a', &set("/watch-kinds/c", "x", -1));
        story.ask('a', &delete("/watch-kinds/c", -1));
        for kind in 1..=5 {
            story.ask('b', &check_watches(top, kind));
        }
        story.ask('b', &remove_watches(top, 3));
        story.ask('a', &set(top, "z", -1));
    }
    // A watch that fires once does not become, nor end, one that stays.
    story.ask('b', &get(top, true));
    story.ask('b', &add_watch(top, 0));
    story.ask('a', &set(top, "1", -1));
    story.ask('a', &set(top, "2", -1));
    story
}

/// checkWatches and removeWatches, each type against each kind of watch.
pub fn taken_away() -> Story {
    let mut story =
        Story::new("watch-removal", "checkWatches and removeWatches, each type against each kind of watch.");
    story.open('a');
    story.open('b');
    let (top, child) = ("/watch-removal", "/watch-removal/c");
    story.ask('a', &create(top, 0));
    let leaves =
        [get(top, true), exists(top, true), children(top, true), add_watch(top, 0), add_watch(top, 1)];
    for kind in [0, 1, 2, 3, 4, 5, 6, -1] {
        for leave in &leaves {
            story.ask('b', leave);
            story.ask('b', &check_watches(top, kind));
            story.ask('b', &remove_watches(top, kind));
            story.ask('b', &remove_watches(top, kind));
            // What is left of it hears these.
            story.ask('a', &set(top, "x", -1));
            story.ask('a', &create(child, 0));
            story.ask('a', &delete(child, -1));
            story.ask('b', &remove_watches(top, 3));
        }
        // One of several.
        for leave in &leaves {
            story.ask('b', leave);
        }
        story.ask('b', &remove_watches(top, kind));
        story.ask('a', &set(top, "x", -1));
        story.ask('a', &create(child, 0));
        story.ask('a', &delete(child, -1));
        story.ask('b', &remove_watches(top, 3));
    }
    for path in ["/watch-removal/none", "bad", ""] {
        story.ask('b', &check_watches(path, 3));
        story.ask('b', &remove_watches(path, 3));
    }
    // Of another client, and of a missing node.
    story.ask('a', &get(top, true));
    story.ask('b', &remove_watches(top, 3));
    story.ask('b', &exists("/watch-removal/none", true));
    story.ask('b', &remove_watches("/watch-removal/none", 2));
    story.ask('a', &create("/watch-removal/none", 0));
    story
}
