//! The `Server` section of a JAAS file, as far as DIGEST-MD5 uses it: `user_NAME="password";` (ZooKeeper's
//! DigestLoginModule).

use super::ZooCfgError;
use std::collections::BTreeMap;

/// Most users of one file.
pub const USERS_MAX: usize = 10_000;
const MODULE: &str = "org.apache.zookeeper.server.auth.DigestLoginModule";

/// Users of the section `Server` with their passwords; none when it has another login module or is not there.
pub fn digest_users(file: &str, text: &str) -> Result<BTreeMap<String, String>, ZooCfgError> {
    let words = words(file, text)?;
    let mut users = BTreeMap::new();
    let mut words = words.into_iter().skip_while(|word| word != "Server").skip(1);
    if words.next().as_deref() != Some("{") {
        return Ok(users);
    }
    let module = words.next().unwrap_or_default();
    if module != MODULE {
        return Ok(users);
    }
    for word in words {
        if word == "}" {
            return Ok(users);
        }
        let Some((name, value)) = word.strip_prefix("user_").and_then(|word| word.split_once('=')) else {
            continue;
        };
        if users.len() == USERS_MAX {
            return Err(ZooCfgError::new(file, format!("names more than {USERS_MAX} users")));
        }
        users.insert(name.to_owned(), value.to_owned());
    }
    Err(ZooCfgError::new(file, "the section `Server { … };` has no end".into()))
}

/// Words without comments; `key = "a b"` becomes one word `key=a b`; braces stand alone, semicolons vanish.
fn words(file: &str, text: &str) -> Result<Vec<String>, ZooCfgError> {
    let mut words: Vec<String> = Vec::new();
    let mut word = String::new();
    let mut letters = text.chars().peekable();
    let mut line = 1;
    // Behind a `=` outside quotes: blanks before the value belong to the word.
    let mut wants_value = false;
    while let Some(letter) = letters.next() {
        line += usize::from(letter == '\n');
        match letter {
            '/' if letters.peek() == Some(&'/') && word.is_empty() => {
                while letters.next_if(|letter| *letter != '\n').is_some() {}
            }
            '"' => loop {
                wants_value = false;
                match letters.next() {
                    Some('"') => break,
                    Some('\\') => word.extend(letters.next()),
                    Some('\n') | None => {
                        return Err(ZooCfgError::new(
                            &format!("{file} line {line}"),
                            "a quote has no end".into(),
                        ));
                    }
                    Some(inner) => word.push(inner),
                }
            },
            '{' | '}' => {
                words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                words.push(letter.to_string());
            }
            ';' => words.extend((!word.is_empty()).then(|| std::mem::take(&mut word))),
            letter if letter.is_whitespace() => {
                while letters.next_if(|next| next.is_whitespace() && *next != '\n').is_some() {}
                // `key = value` is one word.
                if !wants_value && letters.peek() != Some(&'=') {
                    words.extend((!word.is_empty()).then(|| std::mem::take(&mut word)));
                }
            }
            letter => {
                wants_value = letter == '=';
                word.push(letter);
            }
        }
    }
    words.extend((!word.is_empty()).then_some(word));
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_users_of_the_server_section_are_read() {
        let text = "Client {\n  x required user_no=\"1\";\n};\n// Server {\nServer {\n    org.apache.zookeeper.server.auth.DigestLoginModule \
                    required\n    user_super=\"super_secret\"\n    user_b = \"p;\\\" }=\"\nuser_c=\"\";\n};\n";
        let users = digest_users("jaas.conf", text).unwrap();
        assert_eq!(users["super"], "super_secret");
        assert_eq!((users["b"].as_str(), users["c"].as_str()), ("p;\" }=", ""));
        assert_eq!(users.len(), 3);
    }

    #[test]
    fn an_empty_file_and_other_modules_give_no_users() {
        assert!(digest_users("jaas.conf", "").unwrap().is_empty());
        let text = "Server { com.sun.security.auth.module.Krb5LoginModule required keyTab=\"x\"; };";
        assert!(digest_users("jaas.conf", text).unwrap().is_empty());
    }

    #[test]
    fn an_open_quote_and_an_open_section_are_named() {
        let open = format!("Server {{ {MODULE} required user_a=\"x\"");
        assert!(digest_users("jaas.conf", &open).unwrap_err().to_string().contains("no end"));
        assert!(digest_users("jaas.conf", "Server {\n a=\"x\n").unwrap_err().to_string().contains("line 2"));
    }
}
