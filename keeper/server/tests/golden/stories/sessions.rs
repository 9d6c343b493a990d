use crate::story::{Asked, STORY_BEGAN, Story, children, create, delete, exists, get, set};
use keeper_types::Request;

/// What a handshake asks for and is given.
pub fn handshakes() -> Story {
    let mut story = Story::new("handshakes", "What a handshake asks for and is given.");
    story.open('a');
    story.ask('a', &exists("/handshakes", false));
    for timeout_ms in [0, -1, 1, 4_000, 4_001, 10_000, 40_000, 40_001, i32::MAX] {
        story.open_as('t', Asked::New, timeout_ms, Some(false), 0);
        story.ask('t', &Request::CloseSession);
    }
    // Its connection is gone: ZooKeeper ends it when somebody else names its session, with whatever password.
    story.open('v');
    story.raw('v', &[], &(-1_i32).to_be_bytes());
    for read_only in [None, Some(false), Some(true)] {
        story.open_as('r', Asked::New, 10_000, read_only, 0);
        story.ask('r', &create("/handshakes", 0));
        story.ask('r', &delete("/handshakes", -1));
        story.ask('r', &Request::CloseSession);
        story.open_as('u', Asked::Unknown, 10_000, read_only, 0);
        story.open_as('w', Asked::WrongPasswordOf('v'), 10_000, read_only, 0);
    }
    story.open_as('v', Asked::Of('v'), 10_000, Some(true), 0);
    story.open_as('f', Asked::New, 10_000, Some(false), STORY_BEGAN + 1_000);
    story.open_as('g', Asked::New, 10_000, Some(false), STORY_BEGAN);
    story.ask('a', &exists("/handshakes", false));
    story
}

/// A session moves to another connection, with what it owns.
pub fn moved() -> Story {
    let mut story = Story::new("moved", "A session moves to another connection, with what it owns.");
    story.open('a');
    story.open('o');
    for request in
        [create("/moved", 0), create("/moved/e", 1), get("/moved/e", true), children("/moved", true)]
    {
        story.ask('a', &request);
    }
    story.ask('o', &exists("/moved/e", true));
    // The older connection ends; its watches were its own.
    story.open_as('b', Asked::Of('a'), 20_000, Some(false), STORY_BEGAN);
    story.ask('b', &Request::GetEphemerals("/moved"));
    story.ask('b', &Request::WhoAmI);
    story.ask('b', &set("/moved/e", "x", -1));
    // A wrong password takes nothing away.
    story.raw('b', &[], &(-1_i32).to_be_bytes());
    story.open_as('w', Asked::WrongPasswordOf('a'), 10_000, Some(false), 0);
    story.open_as('b', Asked::Of('a'), 10_000, None, STORY_BEGAN);
    story.ask('b', &exists("/moved/e", false));
    // Ahead of the server: no answer, and the session is where it was.
    story.open_as('x', Asked::Of('a'), 10_000, Some(false), STORY_BEGAN + 1_000);
    story.ask('b', &create("/moved/f", 1));
    story.ask('b', &Request::CloseSession);
    story.open_as('c', Asked::Of('a'), 10_000, Some(false), 0);
    story.ask('o', &exists("/moved/e", false));
    story.ask('o', &delete("/moved", -1));
    story
}

/// What goes with a session, and what others hear of it.
pub fn ephemerals() -> Story {
    let mut story = Story::new("ephemerals", "What goes with a session, and what others hear of it.");
    story.open('a');
    story.open('b');
    story.open('o');
    for request in [create("/ephemerals", 0), create("/ephemerals/e", 1)] {
        story.ask('a', &request);
    }
    for request in [
        exists("/ephemerals/e", true),
        children("/ephemerals", true),
        get("/ephemerals/e", false),
        Request::GetEphemerals("/"),
        create("/ephemerals/e", 1),
        set("/ephemerals/e", "of another", -1),
    ] {
        story.ask('b', &request);
    }
    story.ask('o', &exists("/ephemerals/e", true));
    // Everybody may delete it, with the permission.
    story.ask('o', &delete("/ephemerals/e", -1));
    story.ask('a', &create("/ephemerals/e", 1));
    for client in ['b', 'o'] {
        story.ask(client, &exists("/ephemerals/e", true));
        story.ask(client, &children("/ephemerals", true));
    }
    story.ask('a', &Request::CloseSession);
    story.ask('b', &exists("/ephemerals", false));
    story.ask('b', &exists("/ephemerals/e", false));
    story.ask_together('b', &[create("/ephemerals/e", 1), Request::CloseSession]);
    story.ask('o', &exists("/ephemerals", false));
    story
}
