//! `docs/compatibility.md`: what of ZooKeeper and ClickHouse Keeper is here, read from the tables that the server itself
//! goes by. Two of them are plain data files, included here rather than their crates: those would bring a second build
//! of the whole server with them.

#[allow(dead_code, reason = "the server's own table; not all of it is shown")]
#[path = "../../keeper/src/config/keys.rs"]
mod keys;
#[allow(dead_code, reason = "the server's own table; not all of it is shown")]
#[path = "../../keeper/server/src/four_letter/table.rs"]
mod words;

use keeper_types::{Feature, Features, OpClass, OpCode};
use std::fmt::Write as _;
use words::{Origin, Support, WORDS};

/// Where it is written, from the root.
pub const FILE: &str = "docs/compatibility.md";

/// Keys of `zoo.cfg` and system properties: name, yes/partly/no, note. Filled by the reader of `zoo.cfg`, as a data file
/// like the two above.
const ZOO_CFG: &[(&str, Support, &str)] = &[];

pub fn page() -> String {
    let mut text = String::from(
        "# Compatibility\n\n\
         Made by `cargo xtask generate` from the server's own tables; do not edit. What differs on purpose is in\n\
         [protocol/client.md](protocol/client.md).\n\n",
    );
    operations(&mut text);
    four_letter_words(&mut text);
    features(&mut text);
    configuration(&mut text);
    text
}

fn answer(support: Support) -> &'static str {
    match support {
        Support::Yes => "yes",
        Support::Partly => "partly",
        Support::No => "no",
    }
}

fn operations(text: &mut String) {
    text.push_str("## Operations\n\n| code | operation | of | served | as |\n|---|---|---|---|---|\n");
    for op in OpCode::ALL {
        let of = if op.as_i32() >= 500 { "ClickHouse" } else { "ZooKeeper" };
        let (served, how) = match (op, op.class()) {
            (OpCode::CreateSession, _) => ("no", "internal in ZooKeeper too: never from a client"),
            (_, OpClass::Read) => ("yes", "read, from this member's tree"),
            (_, OpClass::Write) => ("yes", "write, through the log"),
            (_, OpClass::Session) => ("yes", "concerns the connection or the session"),
            (_, OpClass::Membership) => ("yes", "changes the membership, where `reconfig.enabled` is set"),
            (_, OpClass::Unserved) => ("no", "answered `Unimplemented` (-6)"),
        };
        let _ = writeln!(text, "| {} | {} | {of} | {served} | {how} |", op.as_i32(), op.name());
    }
    text.push_str("\nAny other code is answered `Unimplemented` (-6), and the connection goes on.\n\n");
}

fn four_letter_words(text: &mut String) {
    text.push_str(
        "## Four-letter words\n\nMore in [four-letter-words.md](four-letter-words.md).\n\n\
         | word | of | served | open by default | note |\n|---|---|---|---|---|\n",
    );
    for word in WORDS {
        let of = match word.origin {
            Origin::Zookeeper => "ZooKeeper",
            Origin::Clickhouse => "ClickHouse",
            Origin::Both => "both",
            Origin::Own => "ours",
        };
        let open = if word.open { "yes" } else { "no" };
        let _ =
            writeln!(text, "| `{}` | {of} | {} | {open} | {} |", word.name, answer(word.support), word.note);
    }
    text.push('\n');
}

fn features(text: &mut String) {
    text.push_str(
        "## Feature flags of ClickHouse Keeper\n\nThe data of `/keeper/feature_flags`. `features.off` switches single \
         ones off: they are not announced then, and what ZooKeeper has no such operation for is answered Unimplemented.\n\n\
         | bit | flag | announced | operation | served |\n|---|---|---|---|---|\n",
    );
    for feature in Feature::ALL {
        let bit = *feature as usize;
        let on = Features::ALL.has(*feature);
        let op = operation_of(*feature);
        let served = op.class() != OpClass::Unserved;
        let [on, served] = [on, served].map(|yes| if yes { "yes" } else { "no" });
        let _ = writeln!(text, "| {bit} | `{}` | {on} | {} | {served} |", feature.key(), op.name());
    }
    text.push('\n');
}

/// The operation that a client uses once it has seen the flag.
fn operation_of(feature: Feature) -> OpCode {
    match feature {
        Feature::FilteredList => OpCode::FilteredList,
        Feature::MultiRead | Feature::MultiWatches => OpCode::MultiRead,
        Feature::CheckNotExists => OpCode::CheckNotExists,
        Feature::CreateIfNotExists => OpCode::CreateIfNotExists,
        Feature::RemoveRecursive => OpCode::RemoveRecursive,
        Feature::CheckStat => OpCode::CheckStat,
        Feature::PersistentWatches => OpCode::AddWatch,
        Feature::CreateWithStats => OpCode::Create2,
        Feature::TryRemove => OpCode::TryRemove,
        Feature::ListWithStatAndData => OpCode::FilteredListWithStatsAndData,
        Feature::CreateTtl => OpCode::CreateTtl,
    }
}

fn configuration(text: &mut String) {
    text.push_str(
        "## Configuration\n\nKeys of our own file ([configuration.md](configuration.md)) and what says the same elsewhere.\n\n\
         | key | ZooKeeper | ClickHouse |\n|---|---|---|\n",
    );
    let code = |names: &str| match names {
        "" => "–".to_owned(),
        names => names.split(", ").map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", "),
    };
    for key in keys::KEYS {
        let _ = writeln!(text, "| `{}` | {} | {} |", key.name, code(key.zookeeper), code(key.clickhouse));
    }
    if ZOO_CFG.is_empty() {
        return;
    }
    text.push_str("\n## zoo.cfg\n\n| key | served | note |\n|---|---|---|\n");
    for (name, support, note) in ZOO_CFG {
        let _ = writeln!(text, "| `{name}` | {} | {note} |", answer(*support));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_every_table_is_on_the_page() {
        let page = page();
        for op in OpCode::ALL {
            assert!(page.contains(&format!("| {} | {} |", op.as_i32(), op.name())), "{}", op.name());
        }
        for word in WORDS {
            assert!(page.contains(&format!("| `{}` |", word.name)), "{}", word.name);
        }
        for name in
            Feature::ALL.iter().map(|feature| feature.key()).chain(keys::KEYS.iter().map(|key| key.name))
        {
            assert!(page.contains(&format!("| `{name}` |")), "{name}");
        }
    }
}
