//! The users of a server: from `user:password` lines, from a folder with a file per user (a mounted Secret), or
//! from the `Server` section of a JAAS file as ZooKeeper reads it. Parsing only; whoever calls opens the files.

use super::limits::{PASSWORD_BYTES_MAX, USER_BYTES_MAX, USERS_FILE_BYTES_MAX, USERS_MAX};
use std::collections::BTreeMap;
use std::fmt;

/// Names and passwords. Its `Debug` shows no password.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Users(BTreeMap<String, String>);

/// What is wrong with a source of users, without the passwords in it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UsersError {
    #[error("{length} bytes, but at most {USERS_FILE_BYTES_MAX} are allowed")]
    TooLarge { length: usize },
    #[error("line {line}: {what}")]
    Line { line: usize, what: &'static str },
    #[error("user `{user}`: {what}")]
    User { user: String, what: &'static str },
    #[error("no section `{section} {{ ... }};`")]
    NoSection { section: String },
    #[error("more than {USERS_MAX} users")]
    TooMany,
}

impl Users {
    /// A file: JAAS when its first word is followed by `{`, else lines of `user:password`. Empty lines and lines
    /// that begin with `#` count as nothing; a password may hold colons.
    pub fn parse(text: &str) -> Result<Users, UsersError> {
        if text.len() > USERS_FILE_BYTES_MAX {
            return Err(UsersError::TooLarge { length: text.len() });
        }
        if looks_like_jaas(text) {
            return Users::parse_jaas(text, "Server");
        }
        let mut users = Users::default();
        for (number, line) in (1..).zip(text.lines()) {
            if line.trim().is_empty() || line.starts_with('#') {
                continue;
            }
            let what = "is not of the form user:password";
            let (user, password) = line.split_once(':').ok_or(UsersError::Line { line: number, what })?;
            users.add(user, password)?;
        }
        Ok(users)
    }

    /// A folder's files, their names being the users. One line end after the password is not part of it.
    pub fn from_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Users, UsersError> {
        let mut users = Users::default();
        for (user, content) in files {
            let password = content.strip_suffix('\n').unwrap_or(content);
            users.add(user, password.strip_suffix('\r').unwrap_or(password))?;
        }
        Ok(users)
    }

    /// The options `user_NAME="PASSWORD"` of all login modules of one section, as ZooKeeper's DigestLoginModule has
    /// them. Other options and other sections are of no concern here.
    pub fn parse_jaas(text: &str, section: &str) -> Result<Users, UsersError> {
        if text.len() > USERS_FILE_BYTES_MAX {
            return Err(UsersError::TooLarge { length: text.len() });
        }
        let mut tokens = Tokens { rest: text, line: 1 };
        let mut found = None;
        while let Some(name) = tokens.next()? {
            tokens.expect(&[Token::Sign('{')], "`{` belongs after the name of a section")?;
            let users = read_section(&mut tokens)?;
            if name == Token::Word(section.into()) {
                found = Some(users);
            }
            tokens.expect(&[Token::Sign(';')], "`;` belongs after the `}` of a section")?;
        }
        found.ok_or_else(|| UsersError::NoSection { section: section.into() })
    }

    pub fn password(&self, user: &str) -> Option<&str> {
        self.0.get(user).map(String::as_str)
    }

    /// Users with their passwords, sorted by name.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(user, password)| (user.as_str(), password.as_str()))
    }

    pub fn len(&self) -> usize {
        self.0.len()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    fn add(&mut self, user: &str, password: &str) -> Result<(), UsersError> {
        let wrong = |what| Err(UsersError::User { user: user.chars().take(64).collect(), what });
        if user.is_empty() || user.len() > USER_BYTES_MAX {
            return wrong("a name has 1 to 256 bytes");
        }
        // An empty password would be one that everybody knows.
        if password.is_empty() || password.len() > PASSWORD_BYTES_MAX {
            return wrong("a password has 1 to 1024 bytes");
        }
        if self.0.len() == USERS_MAX {
            return Err(UsersError::TooMany);
        }
        match self.0.insert(user.to_owned(), password.to_owned()) {
            None => Ok(()),
            Some(_) => wrong("stands there twice"),
        }
    }
}

impl fmt::Debug for Users {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

fn looks_like_jaas(text: &str) -> bool {
    let mut tokens = Tokens { rest: text, line: 1 };
    matches!(tokens.next(), Ok(Some(Token::Word(_)))) && matches!(tokens.next(), Ok(Some(Token::Sign('{'))))
}

/// `MODULE FLAG NAME=VALUE ...;` any number of times, up to `}`.
fn read_section(tokens: &mut Tokens<'_>) -> Result<Users, UsersError> {
    let mut users = Users::default();
    loop {
        match tokens.next()? {
            Some(Token::Sign('}')) => return Ok(users),
            Some(Token::Word(_)) => {}
            _ => return Err(tokens.wrong("a login module or `}` belongs here")),
        }
        match tokens.next()? {
            Some(Token::Word(flag)) if is_flag(&flag) => {}
            _ => return Err(tokens.wrong("required, requisite, sufficient or optional belongs here")),
        }
        loop {
            let option = match tokens.next()? {
                Some(Token::Sign(';')) => break,
                Some(Token::Word(option)) => option,
                _ => return Err(tokens.wrong("an option or `;` belongs here")),
            };
            tokens.expect(&[Token::Sign('=')], "`=` belongs after an option")?;
            let value = match tokens.next()? {
                Some(Token::Word(value) | Token::Text(value)) => value,
                _ => return Err(tokens.wrong("a value belongs after `=`")),
            };
            if let Some(user) = option.strip_prefix("user_") {
                users.add(user, &value)?;
            }
        }
    }
}

fn is_flag(word: &str) -> bool {
    ["required", "requisite", "sufficient", "optional"].iter().any(|flag| word.eq_ignore_ascii_case(flag))
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Token {
    Word(String),
    /// In quotes.
    Text(String),
    Sign(char),
}

/// Cuts a JAAS file: words, quoted texts, signs; comments of Java's two kinds and `#` lines are passed over.
struct Tokens<'a> {
    rest: &'a str,
    line: usize,
}

impl Tokens<'_> {
    fn wrong(&self, what: &'static str) -> UsersError {
        UsersError::Line { line: self.line, what }
    }

    fn expect(&mut self, wanted: &[Token], what: &'static str) -> Result<(), UsersError> {
        match self.next()? {
            Some(token) if wanted.contains(&token) => Ok(()),
            _ => Err(self.wrong(what)),
        }
    }

    fn next(&mut self) -> Result<Option<Token>, UsersError> {
        self.skip_blanks_and_comments()?;
        let Some(first) = self.rest.chars().next() else { return Ok(None) };
        if first == '"' {
            return self.quoted().map(|text| Some(Token::Text(text)));
        }
        if matches!(first, '{' | '}' | ';' | '=') {
            self.advance(first.len_utf8());
            return Ok(Some(Token::Sign(first)));
        }
        let is_end = |letter: char| letter.is_whitespace() || matches!(letter, '{' | '}' | ';' | '=' | '"');
        let length = self.rest.find(is_end).unwrap_or(self.rest.len());
        let word = self.rest[..length].to_owned();
        self.advance(length);
        Ok(Some(Token::Word(word)))
    }

    fn skip_blanks_and_comments(&mut self) -> Result<(), UsersError> {
        loop {
            let blanks = self.rest.len() - self.rest.trim_start().len();
            self.advance(blanks);
            if self.rest.starts_with("//") || self.rest.starts_with('#') {
                self.advance(self.rest.find('\n').unwrap_or(self.rest.len()));
            } else if self.rest.starts_with("/*") {
                let Some(length) = self.rest[2..].find("*/") else {
                    return Err(self.wrong("a comment does not end"));
                };
                self.advance(2 + length + 2);
            } else {
                return Ok(());
            }
        }
    }

    /// Backslashes as in Java: `\"` and `\\` stand for the second character, `\n` and the like for what they do there.
    fn quoted(&mut self) -> Result<String, UsersError> {
        let mut text = String::new();
        let mut letters = self.rest[1..].char_indices();
        while let Some((at, letter)) = letters.next() {
            match letter {
                '"' => {
                    self.advance(at + 2);
                    return Ok(text);
                }
                '\n' => break,
                '\\' => match letters.next() {
                    Some((_, 'n')) => text.push('\n'),
                    Some((_, 't')) => text.push('\t'),
                    Some((_, 'r')) => text.push('\r'),
                    Some((_, other)) => text.push(other),
                    None => break,
                },
                other => text.push(other),
            }
        }
        Err(self.wrong("a quoted text does not end on its line"))
    }

    fn advance(&mut self, bytes: usize) {
        let (passed, rest) = self.rest.split_at(bytes);
        self.line += passed.matches('\n').count();
        self.rest = rest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn users(list: &[(&str, &str)]) -> Users {
        Users(list.iter().map(|(user, password)| ((*user).into(), (*password).into())).collect())
    }

    #[test]
    fn lines_hold_a_user_and_a_password_each() {
        let text = "# who may\n\nbob:se:cret \nsuper:x\r\n";
        assert_eq!(Users::parse(text), Ok(users(&[("bob", "se:cret "), ("super", "x")])));
        assert_eq!(Users::parse(""), Ok(Users::default()));
        let error = Users::parse("bob:a\nnobody").unwrap_err();
        assert_eq!(error.to_string(), "line 2: is not of the form user:password");
        for bad in [
            "bob:",
            ":a",
            "bob:a\nbob:b",
            &format!("{}:a", "u".repeat(257)),
            &format!("u:{}", "p".repeat(1025)),
        ] {
            assert!(matches!(Users::parse(bad), Err(UsersError::User { .. })), "{bad}");
        }
    }

    #[test]
    fn a_folder_holds_a_file_for_each_user() {
        let files = [("bob", "secret\n"), ("ann", "two words")];
        assert_eq!(Users::from_files(files), Ok(users(&[("bob", "secret"), ("ann", "two words")])));
        assert!(Users::from_files([("bob", "\n")]).is_err());
    }

    #[test]
    fn the_server_section_of_a_jaas_file_names_the_users() {
        let text = "/* ours */ Client { org.Module required username=\"bob\" password=\"p\"; };\n\
                    Server {\n  // who may\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  \
                    user_super=\"adminsecret\"\n  user_bob=\"b;o\\\"b\" user_ann=plain other=1;\n};\n";
        let expected = users(&[("super", "adminsecret"), ("bob", "b;o\"b"), ("ann", "plain")]);
        assert_eq!(Users::parse_jaas(text, "Server"), Ok(expected.clone()));
        assert_eq!(Users::parse(text), Ok(expected));
        let missing = Users::parse_jaas(text, "Quorum").unwrap_err();
        assert_eq!(missing.to_string(), "no section `Quorum { ... };`");
        assert_eq!(Users::parse_jaas("Server { };", "Server"), Ok(Users::default()));
    }

    #[test]
    fn a_broken_jaas_file_is_named_with_its_line() {
        for (text, what) in [
            ("Server {\norg.Module", "line 2: required, requisite"),
            ("Server {\norg.Module required user_bob=", "line 2: a value belongs"),
            ("Server {\norg.Module required user_bob \"x\";", "line 2: `=` belongs"),
            ("Server {\norg.Module required user_bob=\"x\n\";", "line 2: a quoted text"),
            ("Server { };\n/*/", "line 2: a comment"),
            ("Server { org.Module required user_bob=\"x\"; }", "line 1: `;` belongs"),
            ("Server { org.Module required user_bob=\"\"; };", "user `bob`: a password"),
        ] {
            let error = Users::parse_jaas(text, "Server").unwrap_err().to_string();
            assert!(error.starts_with(what), "{text:?}: {error}");
        }
    }

    #[test]
    fn passwords_are_never_shown() {
        let shown = format!("{:?}", users(&[("bob", "secret")]));
        assert_eq!(shown, "{\"bob\"}");
    }
}
