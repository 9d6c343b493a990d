//! The built-in workloads: the files of `workloads/`, which are examples to copy as well.

/// Names and files, in the order in which they are listed.
pub const ALL: [(&str, &str); 11] = [
    ("prod-mix", include_str!("../workloads/prod-mix.yaml")),
    ("read", include_str!("../workloads/read.yaml")),
    ("write", include_str!("../workloads/write.yaml")),
    ("read-multi", include_str!("../workloads/read-multi.yaml")),
    ("write-multi", include_str!("../workloads/write-multi.yaml")),
    ("list-heavy", include_str!("../workloads/list-heavy.yaml")),
    ("churn", include_str!("../workloads/churn.yaml")),
    ("large-payload", include_str!("../workloads/large-payload.yaml")),
    ("single-hot-get", include_str!("../workloads/single-hot-get.yaml")),
    ("multi-large", include_str!("../workloads/multi-large.yaml")),
    ("watch-heavy", include_str!("../workloads/watch-heavy.yaml")),
];

pub fn find(name: &str) -> Option<&'static str> {
    ALL.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

/// The first line of a file without its comment sign.
pub fn summary(text: &str) -> &str {
    text.lines().next().unwrap_or_default().trim_start_matches('#').trim()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;

    #[test]
    fn each_parses_spreads_640_sessions_and_says_what_it_is() {
        for (name, text) in ALL {
            let config = Config::parse(text).unwrap_or_else(|error| panic!("{name}: {error}"));
            let sessions: Vec<usize> = config.connections.endpoints.iter().map(|e| e.sessions).collect();
            assert_eq!(sessions, [214, 213, 213], "{name}");
            assert_eq!((config.concurrency, config.notes.len()), (640, 0), "{name}");
            assert!(config.generator.is_some() && 20 < summary(text).len(), "{name}");
        }
    }
}
