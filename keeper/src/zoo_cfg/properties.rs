//! The text of a zoo.cfg: Java's properties format, and `-D` flags beside it. Every value keeps the place it came from.

use super::ZooCfgError;
use std::collections::BTreeMap;

/// Longest file that is read: a zoo.cfg with 255 servers has about 20 KiB.
pub const FILE_BYTES_MAX: usize = 1 << 20;

/// One value and where it stands: `zoo.cfg line 7` or `-Dzookeeper.x`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    pub value: String,
    pub place: String,
}

/// Keys in ZooKeeper's spelling without the prefix `zookeeper.`, which ZooKeeper itself puts before keys of the file
/// to make system properties of them.
pub type Settings = BTreeMap<String, Setting>;

/// Reads `key=value`, `key: value` and `key value` lines; `#` and `!` begin comments, a backslash at the end of a line
/// goes on with the next one (java.util.Properties, "load"). The later of two equal keys wins, as there; which ones
/// were so is returned beside.
pub fn read_file(name: &str, text: &str, settings: &mut Settings) -> Result<Vec<String>, ZooCfgError> {
    if text.len() > FILE_BYTES_MAX {
        return Err(ZooCfgError::new(name, format!("has {} bytes, at most {FILE_BYTES_MAX}", text.len())));
    }
    let mut repeated = Vec::new();
    let mut seen: BTreeMap<String, String> = BTreeMap::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let line = line.trim_start();
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let place = format!("{name} line {}", number + 1);
        let mut whole = line.to_owned();
        while ends_open(&whole) {
            whole.pop();
            match lines.next() {
                Some((_, more)) => whole.push_str(more.trim_start()),
                None => break,
            }
        }
        let (key, value) = split(&whole);
        if key.is_empty() {
            return Err(ZooCfgError::new(&place, format!("`{whole}` has no key; write key=value")));
        }
        let key = unescape(key, &place)?;
        let value = unescape(value, &place)?.trim().to_owned();
        if let Some(first) = seen.insert(key.clone(), place.clone()) {
            repeated.push(format!("{place}: `{key}` was set at {first} already; this one counts"));
        }
        settings.insert(normal(&key), Setting { value, place });
    }
    Ok(repeated)
}

/// Reads `-Dkey=value` words; the others (heap sizes, agents) are returned: they mean nothing to this server.
pub fn read_flags(variable: &str, text: &str, settings: &mut Settings) -> Vec<String> {
    let mut others = Vec::new();
    for word in text.split_whitespace() {
        let Some(property) = word.strip_prefix("-D") else {
            others.push(word.to_owned());
            continue;
        };
        let (key, value) = property.split_once('=').unwrap_or((property, ""));
        let place = format!("-D{key} in {variable}");
        settings.insert(normal(key), Setting { value: value.trim().to_owned(), place });
    }
    others
}

fn normal(key: &str) -> String {
    key.strip_prefix("zookeeper.").unwrap_or(key).to_owned()
}

/// An odd number of backslashes at the end.
fn ends_open(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// The key ends at the first `=`, `:` or blank that no backslash stands before.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.char_indices().find(|(_, letter)| {
        let ends = !escaped && (matches!(letter, '=' | ':') || letter.is_whitespace());
        escaped = !escaped && *letter == '\\';
        ends
    });
    let Some((end, _)) = end else { return (line, "") };
    let rest = line[end..].trim_start();
    let rest = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (&line[..end], rest.trim_start())
}

fn unescape(text: &str, place: &str) -> Result<String, ZooCfgError> {
    let mut out = String::with_capacity(text.len());
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        match letters.next() {
            Some('t') => out.push('\t'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('f') => out.push('\u{c}'),
            Some('u') => {
                let digits: String = letters.by_ref().take(4).collect();
                let code = u32::from_str_radix(&digits, 16).ok().filter(|_| digits.len() == 4);
                let wrong =
                    || ZooCfgError::new(place, format!("`\\u{digits}` is no character; write \\uXXXX"));
                out.push(code.and_then(char::from_u32).ok_or_else(wrong)?);
            }
            Some(other) => out.push(other),
            None => {}
        }
    }
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<Settings, String> {
        let mut settings = Settings::new();
        read_file("zoo.cfg", text, &mut settings).map_err(|error| error.to_string())?;
        Ok(settings)
    }

    #[test]
    fn all_forms_of_javas_properties_are_read() {
        let text =
            "# note\n! note\n\n a=1\nb : 2\nc 3\nd=x\\\n   y\ne=\\u0041\\tB\nf\nzookeeper.g=7\nh\\=i=8\n";
        let settings = read(text).unwrap();
        let value = |key: &str| settings[key].value.as_str();
        assert_eq!([value("a"), value("b"), value("c"), value("d")], ["1", "2", "3", "xy"]);
        assert_eq!([value("e"), value("f"), value("g"), value("h=i")], ["A\tB", "", "7", "8"]);
        assert_eq!(settings["e"].place, "zoo.cfg line 9");
    }

    #[test]
    fn the_later_of_two_equal_keys_counts_and_is_named() {
        let mut settings = Settings::new();
        let repeated = read_file("zoo.cfg", "a=1\na=2\n", &mut settings).unwrap();
        assert_eq!(settings["a"].value, "2");
        assert!(repeated[0].contains("line 2") && repeated[0].contains("line 1"), "{repeated:?}");
    }

    #[test]
    fn a_line_without_a_key_and_a_bad_escape_are_named() {
        assert!(read("=5\n").unwrap_err().contains("zoo.cfg line 1"));
        assert!(read("a=1\nb=\\u00\n").unwrap_err().contains("zoo.cfg line 2"));
        assert!(read("a=\\ud800").unwrap_err().contains("no character"));
    }

    #[test]
    fn flags_lose_their_prefix_and_others_are_returned() {
        let mut settings = Settings::new();
        let others =
            read_flags("SERVER_JVMFLAGS", "-Xmx1g -Dzookeeper.skipACL=yes -Djute.maxbuffer", &mut settings);
        assert_eq!(others, ["-Xmx1g"]);
        assert_eq!(settings["skipACL"].value, "yes");
        assert_eq!(settings["jute.maxbuffer"].place, "-Djute.maxbuffer in SERVER_JVMFLAGS");
    }

    #[test]
    fn no_text_makes_the_reader_panic() {
        for text in
            ["\\", "a\\", "a=\\", "\\u", "\u{feff}a=b", "é=ü\\ué", ":=", "a\\\n\\\n", "\0=\0", "=\\\n="]
        {
            let _ = read(text);
        }
    }
}
