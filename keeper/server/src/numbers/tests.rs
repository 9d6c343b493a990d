use super::*;
use std::collections::BTreeSet;

#[test]
fn no_name_stands_for_two_numbers() {
    let (mut mntr, mut page) = (BTreeSet::new(), BTreeSet::new());
    for number in NUMBERS {
        let named = number.mntr.is_some() || number.prometheus.is_some() || !number.clickhouse.is_empty();
        assert!(named, "a row without a name: {}", number.help);
        assert!(number.mntr.is_none_or(|name| mntr.insert(name)), "{:?} twice in mntr", number.mntr);
        let on_page = number.prometheus.map(str::to_owned).into_iter();
        let theirs = number.clickhouse.iter().map(|name| format!("{}{}", name.prefix(), name.name()));
        for name in on_page.chain(theirs) {
            assert!(page.insert(name.clone()), "{name} twice on the page");
            assert!(
                !name.starts_with("keeper_"),
                "{name}: our own names are in `metrics.rs` and `collector.rs`"
            );
        }
    }
}

#[test]
fn every_name_is_in_the_documentation() {
    let page = include_str!("../../../../docs/metrics.md");
    for number in NUMBERS {
        let theirs = number.clickhouse.iter().map(|name| name.name());
        for name in number.mntr.into_iter().chain(number.prometheus).chain(theirs) {
            assert!(page.contains(&format!("`{name}`")), "docs/metrics.md does not know {name}");
        }
    }
}
