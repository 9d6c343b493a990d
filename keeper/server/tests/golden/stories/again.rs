use crate::story::{
    Asked, STORY_BEGAN, Story, add_watch, check_watches, children, create, delete, exists, get, set,
    set_watches,
};
use keeper_types::Request;

/// Watches that fire once, set again: what was missed is told before the reply, the rest waits.
pub fn once() -> Story {
    let mut story = Story::new(
        "set-watches",
        "Watches set again: what was missed is told before the reply, the rest waits.",
    );
    story.open('a');
    story.open('b');
    // Zxids from the first reply on: 0 this, 1 old, 2 set, 3 gone, 4 its end, 5 a child.
    for request in [
        create("/set-watches", 0),
        create("/set-watches/old", 0),
        create("/set-watches/set", 0),
        create("/set-watches/gone", 0),
        delete("/set-watches/gone", -1),
        create("/set-watches/set/c", 0),
        set("/set-watches/set", "x", -1),
    ] {
        story.ask('a', &request);
    }
    let all = ["/set-watches/old", "/set-watches/set", "/set-watches/gone"];
    for since in [0, STORY_BEGAN + 1, STORY_BEGAN + 4, STORY_BEGAN + 5, STORY_BEGAN + 6, i64::MAX] {
        story.open('c');
        story.ask('c', &set_watches(since, [&all, &[], &[], &[], &[]]));
        story.ask('c', &set_watches(since, [&[], &all, &[], &[], &[]]));
        story.ask('c', &set_watches(since, [&[], &[], &all, &[], &[]]));
        for path in all {
            for kind in 1..=3 {
                story.ask('c', &check_watches(path, kind));
            }
        }
        story.ask('c', &Request::CloseSession);
    }
    // What is set again fires as if it had never been away.
    story.ask('b', &set_watches(STORY_BEGAN + 7, [&[all[0]], &[all[2]], &[all[1]], &[], &[]]));
    for change in
        [set(all[0], "x", -1), set(all[0], "y", -1), create(all[2], 0), delete("/set-watches/set/c", -1)]
    {
        story.ask('a', &change);
    }
    story.ask('b', &set_watches(0, [&[], &[], &[], &[], &[]]));
    story.ask('b', &set_watches(0, [&["/set-watches/none/x"], &["bad"], &["/"], &[], &[]]));
    // Over a new connection of the same session; the old connection's watches are gone with it.
    story.ask('b', &get(all[0], true));
    story.ask('b', &children("/set-watches", true));
    story.open_as('d', Asked::Of('b'), 10_000, Some(false), STORY_BEGAN);
    story.ask('a', &set(all[0], "z", -1));
    story.ask('d', &set_watches(STORY_BEGAN + 11, [&[all[0]], &[], &["/set-watches"], &[], &[]]));
    story.ask('a', &create("/set-watches/new", 0));
    story
}

/// Persistent watches, set again: nothing is told of what was missed.
pub fn persistent() -> Story {
    let mut story =
        Story::new("set-watches-2", "Persistent watches set again: nothing is told of what was missed.");
    story.open('a');
    story.open('b');
    let (top, child) = ("/set-watches-2", "/set-watches-2/c");
    story.ask('a', &create(top, 0));
    story.ask('a', &create(child, 0));
    story.ask('b', &set_watches(0, [&[], &[], &[], &[top], &[]]));
    story.ask('a', &set(top, "x", -1));
    story.ask('a', &set(child, "x", -1));
    story.ask('a', &delete(child, -1));
    for kind in 1..=5 {
        story.ask('b', &check_watches(top, kind));
    }
    story.open('c');
    story.ask('c', &set_watches(0, [&[], &[], &[], &[], &[top, "/set-watches-2/none"]]));
    for change in [create(child, 0), set(child, "y", -1), create("/set-watches-2/none", 0), delete(child, -1)]
    {
        story.ask('a', &change);
    }
    // All five kinds at once, on one path.
    story.open('d');
    story.ask('d', &set_watches(0, [&[top], &[top], &[top], &[top], &[top]]));
    story.ask('d', &set_watches(STORY_BEGAN + 100, [&[top], &[child], &[top], &[top], &[top]]));
    story.ask('a', &set(top, "z", -1));
    story.ask('a', &create(child, 0));
    story.ask('a', &set(top, "zz", -1));
    story.ask('d', &add_watch(top, 0));
    story.ask('d', &exists(top, false));
    story.ask('a', &set(top, "zzz", -1));
    story
}
