//! The list of directives in a token (RFC 2831, 7.1): `name=value`, separated by commas and blanks; a value may
//! stand in quotes, where a backslash takes the next character as it is.

use super::SaslError;
use super::limits::DIRECTIVES_MAX;

/// What one client sent, names in lower case. No name stands there twice.
pub struct Directives(Vec<(String, Vec<u8>)>);

impl Directives {
    pub fn parse(token: &[u8]) -> Result<Directives, SaslError> {
        let mut found = Directives(Vec::new());
        let mut rest = skip_separators(token);
        while !rest.is_empty() {
            let (name, after) = name(rest)?;
            let (value, after) = match after {
                [b'"', quoted @ ..] => quoted_value(quoted)?,
                plain => plain_value(plain),
            };
            if found.get(&name).is_some() {
                return Err(SaslError::Malformed("a directive stands there twice"));
            }
            if found.0.len() == DIRECTIVES_MAX {
                return Err(SaslError::Malformed("too many directives"));
            }
            found.0.push((name, value));
            rest = skip_separators(after);
        }
        Ok(found)
    }

    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.0.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_slice())
    }
}

fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n')
}

fn skip_separators(bytes: &[u8]) -> &[u8] {
    let at = bytes.iter().position(|byte| !is_blank(*byte) && *byte != b',');
    &bytes[at.unwrap_or(bytes.len())..]
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let at = bytes.iter().position(|byte| !is_blank(*byte));
    &bytes[at.unwrap_or(bytes.len())..]
}

/// The name, and what follows its `=`.
fn name(bytes: &[u8]) -> Result<(String, &[u8]), SaslError> {
    let end = bytes.iter().position(|byte| *byte == b'=' || is_blank(*byte) || *byte == b',');
    let (name, after) = bytes.split_at(end.unwrap_or(bytes.len()));
    let [b'=', value @ ..] = skip_blanks(after) else {
        return Err(SaslError::Malformed("a directive has no `=`"));
    };
    let value = skip_blanks(value);
    if name.is_empty() || value.is_empty() {
        return Err(SaslError::Malformed("a directive has no name or no value"));
    }
    let name = std::str::from_utf8(name).map_err(|_| SaslError::Malformed("a name is not UTF-8"))?;
    Ok((name.to_ascii_lowercase(), value))
}

fn quoted_value(bytes: &[u8]) -> Result<(Vec<u8>, &[u8]), SaslError> {
    let mut value = Vec::new();
    let mut rest = bytes;
    loop {
        match rest {
            [b'\\', byte, after @ ..] => {
                value.push(*byte);
                rest = after;
            }
            [b'"', after @ ..] => {
                if after.first().is_some_and(|byte| !is_blank(*byte) && *byte != b',') {
                    return Err(SaslError::Malformed("a quoted value goes on after its quote"));
                }
                return Ok((value, after));
            }
            [] | [b'\\'] => return Err(SaslError::Malformed("a quoted value does not end")),
            [byte, after @ ..] => {
                value.push(*byte);
                rest = after;
            }
        }
    }
}

fn plain_value(bytes: &[u8]) -> (Vec<u8>, &[u8]) {
    let end = bytes.iter().position(|byte| is_blank(*byte) || *byte == b',').unwrap_or(bytes.len());
    (bytes[..end].to_vec(), &bytes[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(token: &str, expected: Result<&[(&str, &str)], SaslError>) {
        let found = Directives::parse(token.as_bytes()).map(|found| found.0);
        let expected = expected.map(|list| {
            list.iter().map(|(n, v)| ((*n).to_owned(), v.as_bytes().to_vec())).collect::<Vec<_>>()
        });
        assert_eq!(found, expected, "{token:?}");
    }

    #[test]
    fn values_stand_plain_or_in_quotes() {
        check("", Ok(&[]));
        check(" ,, \t", Ok(&[]));
        check("a=1,B=\"x, \\\"y\\\\\" ,\r\n c = z", Ok(&[("a", "1"), ("b", "x, \"y\\"), ("c", "z")]));
        check("a=\"\"", Ok(&[("a", "")]));
        check("a=1 b=2", Ok(&[("a", "1"), ("b", "2")]));
        check("a==", Ok(&[("a", "=")]));
    }

    #[test]
    fn what_is_no_list_of_directives_is_refused() {
        let malformed = |what| Err(SaslError::Malformed(what));
        check("a", malformed("a directive has no `=`"));
        check("a,b=1", malformed("a directive has no `=`"));
        check("a b=1", malformed("a directive has no `=`"));
        check("=1", malformed("a directive has no name or no value"));
        check("a= ", malformed("a directive has no name or no value"));
        check("a=\"b", malformed("a quoted value does not end"));
        check("a=\"b\\", malformed("a quoted value does not end"));
        check("a=\"b\"c", malformed("a quoted value goes on after its quote"));
        check("a=1,A=2", malformed("a directive stands there twice"));
        let many: String = (0..=DIRECTIVES_MAX).map(|number| format!("d{number}=1,")).collect();
        check(&many, malformed("too many directives"));
        assert!(Directives::parse(b"\xff=1").is_err());
    }
}
