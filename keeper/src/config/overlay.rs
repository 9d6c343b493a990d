//! Lays environment variables and flags over the file, and keeps every error pointing at where it came from.

use super::{Config, ConfigError, ENVIRONMENT_PREFIX};
use toml::{Table, Value};

pub fn build(
    file: &str,
    text: &str,
    environment: impl Iterator<Item = (String, String)>,
    flags: &[String],
) -> Result<Config, ConfigError> {
    // Syntax first: this error names the line.
    let mut table: Table = text.parse().map_err(|cause| ConfigError::Syntax { file: file.into(), cause })?;
    let mut overlays = Vec::new();
    let mut variables: Vec<(String, String)> =
        environment.filter(|(name, _)| name.starts_with(ENVIRONMENT_PREFIX)).collect();
    variables.sort();
    for (name, value) in variables {
        let key = name[ENVIRONMENT_PREFIX.len()..].to_lowercase().replace("__", ".");
        overlays.push((format!("environment variable {name}"), key, value));
    }
    for flag in flags {
        let Some((key, value)) = flag.split_once('=') else {
            return Err(ConfigError::Value {
                place: format!("--set {flag}"),
                why: "is not of the form section.key=value".into(),
            });
        };
        overlays.push((format!("--set {flag}"), key.to_owned(), value.to_owned()));
    }
    if overlays.is_empty() {
        let config: Config =
            toml::from_str(text).map_err(|cause| ConfigError::Syntax { file: file.into(), cause })?;
        config.check().map_err(|error| at(file, error))?;
        return Ok(config);
    }
    for (place, key, value) in &overlays {
        set(&mut table, place, key, value)?;
        // Each one alone, so that a wrong one is named. What the file itself lacks shows below.
        if let Err(error) = alone(&table, key) {
            return Err(ConfigError::Value { place: place.clone(), why: error });
        }
    }
    let config: Config = Value::Table(table)
        .try_into()
        .map_err(|cause: toml::de::Error| ConfigError::Syntax { file: file.into(), cause })?;
    config.check().map_err(|error| at(file, error))?;
    Ok(config)
}

fn at(file: &str, error: ConfigError) -> ConfigError {
    match error {
        ConfigError::Value { place, why } => ConfigError::Value { place: format!("{file}: {place}"), why },
        other => other,
    }
}

/// The text becomes the TOML value it reads as, else a string.
fn set(table: &mut Table, place: &str, key: &str, value: &str) -> Result<(), ConfigError> {
    let Some((section, name)) = key.split_once('.') else {
        return Err(ConfigError::Value {
            place: place.into(),
            why: format!("`{key}` names no section; write section.key"),
        });
    };
    let value = format!("value = {value}")
        .parse::<Table>()
        .ok()
        .and_then(|mut parsed| parsed.remove("value"))
        .unwrap_or_else(|| Value::String(value.to_owned()));
    let section = table.entry(section).or_insert_with(|| Value::Table(Table::new()));
    let Value::Table(section) = section else {
        return Err(ConfigError::Value {
            place: place.into(),
            why: format!("`{key}`: its section is no table"),
        });
    };
    section.insert(name.to_owned(), value);
    Ok(())
}

/// Checks the key that was just set, as far as it can be checked without the rest.
fn alone(table: &Table, key: &str) -> Result<(), String> {
    let (section, _) = key.split_once('.').unwrap_or((key, ""));
    let mut only = Table::new();
    let mut server = Table::new();
    server.insert("name".into(), Value::String("x".into()));
    server.insert("data_dir".into(), Value::String("x".into()));
    only.insert("server".into(), Value::Table(server));
    match (section, table.get(section)) {
        ("server", Some(Value::Table(given))) => {
            if let Some(Value::Table(server)) = only.get_mut("server") {
                server.extend(given.clone());
            }
        }
        (_, Some(given)) => {
            only.insert(section.to_owned(), given.clone());
        }
        (_, None) => {}
    }
    Value::Table(only).try_into::<Config>().map(|_| ()).map_err(|error| error.message().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "[server]\nname = \"a\"\ndata_dir = \"/d\"\n[limits]\nconnections_max = 5\n";

    fn load(text: &str, environment: &[(&str, &str)], flags: &[&str]) -> Result<Config, String> {
        let environment = environment.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        let flags: Vec<String> = flags.iter().map(|flag| (*flag).to_owned()).collect();
        build("keeper.toml", text, environment, &flags).map_err(|error| error.to_string())
    }

    #[test]
    fn flags_win_over_the_environment_and_that_over_the_file() {
        let env = [("KEEPER__LIMITS__CONNECTIONS_MAX", "6"), ("KEEPER__SERVER__NAME", "b"), ("PATH", "/bin")];
        let config = load(FILE, &env, &["limits.connections_max=7"]).unwrap();
        assert_eq!((config.limits.connections_max, config.server.name.as_str()), (7, "b"));
    }

    #[test]
    fn an_unknown_key_is_named_with_its_line_and_what_is_allowed() {
        let error = load(&format!("{FILE}conections_max = 6\n"), &[], &[]).unwrap_err();
        for part in ["keeper.toml", "line 6", "conections_max", "frame_bytes_max"] {
            assert!(error.contains(part), "`{part}` is missing in: {error}");
        }
    }

    #[test]
    fn a_wrong_value_in_the_environment_names_the_variable() {
        let error = load(FILE, &[("KEEPER__LISTEN__CLIENT", "nowhere")], &[]).unwrap_err();
        assert!(error.contains("KEEPER__LISTEN__CLIENT"), "{error}");
        let error = load(FILE, &[("KEEPER__LISTEN__CLEINT", "1.2.3.4:1")], &[]).unwrap_err();
        assert!(error.contains("KEEPER__LISTEN__CLEINT") && error.contains("client"), "{error}");
    }

    #[test]
    fn a_port_with_tls_may_stand_beside_the_plain_one_or_instead_of_it() {
        let ports = |more: &str| {
            let config = load(&format!("{FILE}{more}"), &[], &[]).unwrap();
            (config.listen.plain_client().map(|at| at.port()), config.listen.client_tls.map(|at| at.port()))
        };
        let tls = "[tls]\ncertificate_file = \"/c\"\n";
        assert_eq!(ports(""), (Some(2181), None));
        assert_eq!(ports(&format!("[listen]\nclient_tls = \"0.0.0.0:2281\"\n{tls}")), (None, Some(2281)));
        let both = "[listen]\nclient = \"0.0.0.0:2182\"\nclient_tls = \"0.0.0.0:2281\"\n";
        assert_eq!(ports(&format!("{both}{tls}")), (Some(2182), Some(2281)));
        assert_eq!(ports(&format!("[listen]\nclient_takes_tls = true\n{tls}")), (Some(2181), None));
    }

    #[test]
    fn tls_sections_that_cannot_work_are_refused_with_the_reason() {
        let listens = "[listen]\nclient_tls = \"0.0.0.0:2281\"\n";
        for (more, expected) in [
            (listens, "listen.client_tls: needs a section [tls]"),
            ("[tls]\ncertificate_file = \"/c\"\n", "no port uses it"),
            ("[peer_tls]\ncertificate_file = \"/c\"\n", "peer_tls.ca_file: is missing"),
            ("[admin_tls]\nca_file = \"/c\"\n", "admin_tls.certificate_file: is missing"),
            ("[listen]\nclient_takes_tls = true\n", "listen.client_takes_tls: needs a section [tls]"),
            (
                "[listen]\nclient_tls = \"0.0.0.0:2281\"\nclient_takes_tls = true\n[tls]\ncertificate_file = \"/c\"\n",
                "listen.client_takes_tls: is about the port of listen.client",
            ),
            (
                "[listen]\nclient_tls = \"0.0.0.0:2281\"\n[tls]\ncertificate_file = \"/c\"\ncrl_file = \"/d\"\n",
                "tls.crl_file: has a meaning where",
            ),
            ("[auth]\nx509_super = \"CN=a\"\n", "auth.x509_super: needs a section [tls]"),
            (
                "[peer_tls]\ncertificate_file = \"/c\"\nca_file = \"/d\"\nclient_auth = \"none\"\n",
                "peer_tls.client_auth: can only be",
            ),
        ] {
            let error = load(&format!("{FILE}{more}"), &[], &[]).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        for (key, expected) in [
            ("protocols = [\"TLSv1.1\"]", "`TLSv1.1` is none of TLSv1.2, TLSv1.3"),
            ("cipher_suites = [\"TLS_RSA_WITH_RC4_128_SHA\"]", "is none of TLS_AES_256_GCM_SHA384"),
        ] {
            let error = load(&format!("{FILE}{listens}[tls]\n{key}\n"), &[], &[]).unwrap_err();
            assert!(error.contains(expected) && error.contains("line 9"), "{error}");
        }
        let error =
            load(&format!("{FILE}{listens}[tls]\nclient_auth = \"sometimes\"\n"), &[], &[]).unwrap_err();
        assert!(error.contains("optional") && error.contains("line 9"), "{error}");
        let optional = "[tls]\ncertificate_file = \"/c\"\nclient_auth = \"optional\"\n";
        let error = load(&format!("{FILE}{listens}{optional}"), &[], &[]).unwrap_err();
        assert!(error.contains("tls.ca_file: is missing"), "{error}");
    }

    #[test]
    fn relations_between_values_are_checked() {
        let error = load(FILE, &[], &["session.timeout_ms_min=90000"]).unwrap_err();
        assert!(error.contains("session") && error.contains("90000"), "{error}");
        let error = load(FILE, &[], &["four_letter_words.allow=[\"ruok\", \"wchx\"]"]).unwrap_err();
        assert!(error.contains("`wchx` is none of"), "{error}");
        let error = load(FILE, &[], &["features.off=[\"multi_read\", \"multiread\"]"]).unwrap_err();
        assert!(
            error.contains("features.off") && error.contains("`multiread` is none of filtered_list"),
            "{error}"
        );
    }

    #[test]
    fn a_requirement_that_nobody_could_meet_is_refused() {
        for (flag, part) in [
            ("auth.require_sasl=true", "set auth.sasl_users_file too"),
            ("auth.require_schemes=[\"sasl\"]", "set auth.sasl_users_file too"),
            ("auth.require_schemes=[\"ip\"]", "`ip` is none of digest sasl x509"),
            ("auth.super_user=\"root\"", "`root` could not log in"),
            ("auth.clickhouse_password=\"seventeen letters\"", "1 to 16 bytes"),
        ] {
            let error = load(FILE, &[], &[flag]).unwrap_err();
            assert!(error.contains(part), "{flag}: {error}");
        }
        let users = "auth.sasl_users_file=\"/users\"";
        assert!(load(FILE, &[], &[users, "auth.require_sasl=true", "auth.super_user=\"root\""]).is_ok());
    }

    #[test]
    fn a_password_is_not_shown() {
        let config = load(FILE, &[], &["auth.clickhouse_password=\"secret\""]).unwrap();
        assert_eq!(config.auth.clickhouse_password.as_deref(), Some("secret"));
        let text = toml::to_string_pretty(&config).unwrap();
        assert!(text.contains("clickhouse_password = \"(hidden)\"") && !text.contains("secret\""), "{text}");
    }
}
