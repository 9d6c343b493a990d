//! Sessions recorded from the sockets of a real ZooKeeper 3.9.5, held with this server: every answer and every event is
//! compared byte for byte, but for the fields that `mask` names. README.md beside this says how they were recorded.
#![allow(clippy::disallowed_methods)]

#[path = "../support/mod.rs"]
mod support;

/// The fields that cannot be equal, and why.
mod mask;
/// Takes a story's steps in front of a server, real or ours.
mod player;
/// What clients do: the text of each story.
mod stories;
/// A story's steps, and the short ways to write them.
mod story;
/// A story with what the server said, as a file.
mod transcript;

use mask::Mask;
use player::{Player, Server};
use std::path::PathBuf;
use std::time::Duration;
use story::Story;
use transcript::Scene;

/// Of `super:test`, at both servers.
const SUPER_DIGEST: &str = "super:D/InIHSb7yEEbrWz8b9l71RjZJU=";

fn file_of(story: &Story) -> PathBuf {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden/recorded");
    folder.join(format!("{}.txt", story.name))
}

fn recorded(story: &Story) -> Vec<Scene> {
    let file = file_of(story);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    transcript::read(&text)
}

/// Configured as the recorded server was.
async fn our_server() -> Server {
    let node = support::one_member_with(|options| {
        options.session_timeout_ms = (4_000, 40_000);
        options.auth.super_digest = Some(SUPER_DIGEST.into());
        options.rules.enforce_quota = true;
        // The recorded server had no time for it either.
        options.container_period = Duration::from_secs(3_600);
        options.ttl_period = Duration::from_secs(3_600);
    });
    Server::Ours(Box::new(node.await))
}

/// All stories in their order on one server, since each leaves its nodes and zxids behind.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_answers_are_zookeepers_byte_for_byte() {
    let mut player = Player::new(our_server().await);
    let mut differences = Vec::new();
    let mut compared = 0;
    for story in stories::all() {
        let (mut theirs, mut ours) = (Mask::default(), Mask::default());
        for (at, scene) in recorded(&story).iter().enumerate() {
            let heard = player.play(&scene.step).await;
            let expected = theirs.lines(&scene.step, &scene.heard);
            let found = ours.lines(&scene.step, &heard);
            compared += expected.len();
            if expected != found {
                let told = transcript::describe(&scene.step);
                let name = story.name;
                differences
                    .push(format!("{name}, step {at}: {told}\n  theirs {expected:#?}\n  ours {found:#?}"));
            }
        }
        player.end_story().await;
    }
    assert!(differences.is_empty(), "{} differ:\n{}", differences.len(), differences.join("\n"));
    assert!(compared > 300, "only {compared} packets were compared");
}

#[test]
fn every_story_is_recorded_as_it_is_told() {
    let stories = stories::all();
    for story in &stories {
        let steps: Vec<_> = recorded(story).into_iter().map(|scene| scene.step).collect();
        assert!(steps == story.steps, "{} was changed and has to be recorded again", story.name);
    }
    let folder = file_of(&stories[0]);
    let files = std::fs::read_dir(folder.parent().expect("a folder")).expect("readable").count();
    assert_eq!(files, stories.len(), "files without a story");
}

/// `KEEPER_RECORD=HOST:PORT` of a new ZooKeeper 3.9.5; README.md says how it is started.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
#[ignore = "writes the recordings; needs a real ZooKeeper"]
async fn record() {
    let address = std::env::var("KEEPER_RECORD").expect("KEEPER_RECORD=HOST:PORT of a new ZooKeeper 3.9.5");
    let mut player = Player::new(Server::Real(address));
    for story in stories::all() {
        let mut scenes = Vec::new();
        for step in &story.steps {
            scenes.push(Scene { step: step.clone(), heard: player.play(step).await });
        }
        player.end_story().await;
        std::fs::write(file_of(&story), transcript::write(&story, &scenes)).expect("written");
    }
}
