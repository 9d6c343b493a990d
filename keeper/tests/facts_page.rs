//! docs/protocol/facts.md names the test of each fact; this reads the page and looks every one of them up in the sources.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

const PAGE: &str = "docs/protocol/facts.md";
const STORIES: &str = "keeper/server/tests/golden/recorded";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace").to_owned()
}

/// The last column of a row: files in backticks, each followed by its tests in backticks.
#[derive(Debug, PartialEq, Eq)]
enum Named {
    Test { file: String, name: String },
    Story(String),
}

fn named_in(row: &str) -> Vec<Named> {
    let column = row.trim_end_matches('|').rsplit('|').next().unwrap_or_default();
    let mut found = Vec::new();
    let mut file = None;
    for token in column.split('`').skip(1).step_by(2) {
        if let Some(story) = token.strip_prefix("story ") {
            found.push(Named::Story(story.to_owned()));
        } else if token.contains('/') {
            file = Some(token.to_owned());
        } else {
            let file = file.clone().unwrap_or_else(|| panic!("{token} stands before its file: {row}"));
            found.push(Named::Test { file, name: token.to_owned() });
        }
    }
    found
}

/// Names of the test functions of a file, ignored ones left out: nobody runs those.
fn tests_of(source: &str) -> BTreeSet<String> {
    let lines: Vec<&str> = source.lines().map(str::trim).collect();
    let mut found = BTreeSet::new();
    let mut is_test = false;
    for line in lines {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            is_test = true;
        } else if line.starts_with("#[ignore") {
            is_test = false;
        } else if let Some((before, after)) = line.split_once("fn ")
            && (before.is_empty() || before.ends_with("async ") || before.ends_with("pub "))
        {
            let name = after.split(['(', '<']).next().unwrap_or_default();
            if is_test {
                found.insert(name.to_owned());
            }
            is_test = false;
        }
    }
    found
}

fn rows(page: &str) -> Vec<&str> {
    let is_row = |line: &&str| line.starts_with("| ") && !line.starts_with("| fact ");
    page.lines().filter(is_row).collect()
}

#[test]
fn every_fact_names_a_test_that_exists() {
    let page = std::fs::read_to_string(root().join(PAGE)).expect("the page");
    let mut sources: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut stories = BTreeSet::new();
    let mut facts = 0;
    for row in rows(&page) {
        let named = named_in(row);
        assert!(!named.is_empty(), "no test: {row}");
        facts += 1;
        for one in named {
            match one {
                Named::Story(name) => {
                    let file = root().join(STORIES).join(format!("{name}.txt"));
                    assert!(file.is_file(), "no story {name}: {row}");
                    stories.insert(name);
                }
                Named::Test { file, name } => {
                    let tests = sources.entry(file.clone()).or_insert_with(|| {
                        let source = std::fs::read_to_string(root().join(&file));
                        tests_of(&source.unwrap_or_else(|error| panic!("{file}: {error}")))
                    });
                    assert!(tests.contains(&name), "no test {name} in {file}: {row}");
                }
            }
        }
    }
    assert!(facts > 100, "only {facts} facts were read");
    let recorded = std::fs::read_dir(root().join(STORIES)).expect("stories").map(|entry| {
        let name = entry.expect("readable").file_name().into_string().expect("UTF-8");
        name.trim_end_matches(".txt").to_owned()
    });
    let unnamed: Vec<String> = recorded.filter(|name| !stories.contains(name)).collect();
    assert!(unnamed.is_empty(), "stories that no fact names: {unnamed:?}");
}

#[test]
fn a_test_that_is_not_there_or_not_run_is_found_missing() {
    let source = "#[test]\nfn one() {}\nfn helper() {}\n#[tokio::test(flavor = \"x\")]\nasync fn two() {}\n\
                  #[test]\n#[ignore = \"slow\"]\nfn three() {}\n    #[test]\n    fn four(x in 0..2) {}\n";
    assert_eq!(tests_of(source), ["four", "one", "two"].map(String::from).into());
    let test = |file: &str, name: &str| Named::Test { file: file.into(), name: name.into() };
    assert_eq!(
        named_in("| `a` b | `x/a.rs` `one`, `two`; `y/b.rs` `three`; `story paths` |"),
        [test("x/a.rs", "one"), test("x/a.rs", "two"), test("y/b.rs", "three"), Named::Story("paths".into())]
    );
}
