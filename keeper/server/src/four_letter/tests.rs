use super::*;

#[test]
fn the_version_line_is_a_compatible_version_and_the_date_of_the_commit() {
    let (version, built) = VERSION_LINE.split_once(", built on ").expect("both parts");
    assert!(version.starts_with("3.9.5-castellan-"), "{version}");
    let digits: String = built.chars().map(|c| if c.is_ascii_digit() { '9' } else { c }).collect();
    assert_eq!(digits, "99/99/9999 99:99 UTC");
}

#[test]
fn words_are_four_lower_case_letters_and_none_comes_twice() {
    let names: BTreeSet<&str> = WORDS.iter().map(|word| word.name).collect();
    assert_eq!(names.len(), WORDS.len());
    for word in WORDS {
        assert!(
            word.name.len() == 4 && word.name.bytes().all(|byte| byte.is_ascii_lowercase()),
            "{}",
            word.name
        );
    }
}

#[test]
fn every_word_is_in_the_documentation() {
    let page = include_str!("../../../../docs/four-letter-words.md");
    for word in WORDS {
        assert!(
            page.contains(&format!("`{}`", word.name)),
            "docs/four-letter-words.md does not know {}",
            word.name
        );
    }
}
