//! The server's configuration file, the same for all members of a cluster.
//!
//! What differs by member comes from the environment. Peers are not named here: only the log changes membership.

use std::{collections::BTreeMap, fmt::Write};

use castellan_api::FourLetterWord;
use k8s_openapi::api::core::v1::ConfigMap;

use super::Context;
use crate::cluster::names::{
    ADMIN_PORT, ADMIN_TOKEN_KEY, CLIENT_PORT, CLUSTER_SECRET_KEY, HTTP_PORT, PEER_PORT,
};

pub const CONFIG_FILE: &str = "keeper.toml";
pub const CONFIG_DIR: &str = "/etc/keeper/config";
pub const SECRET_DIR: &str = "/etc/keeper/secret";
pub const DATA_DIR: &str = "/var/lib/keeper";

/// Words that reveal nothing that a client may not see anyway, and change nothing.
const FOUR_LETTER_WORDS: [FourLetterWord; 9] = [
    FourLetterWord::Ruok,
    FourLetterWord::Srvr,
    FourLetterWord::Stat,
    FourLetterWord::Mntr,
    FourLetterWord::Conf,
    FourLetterWord::Cons,
    FourLetterWord::Envi,
    FourLetterWord::Isro,
    FourLetterWord::Wchs,
];

pub fn config_map(context: &Context<'_>) -> ConfigMap {
    ConfigMap {
        metadata: context.metadata(context.names.config()),
        data: Some(BTreeMap::from([(CONFIG_FILE.into(), config_file(context))])),
        ..ConfigMap::default()
    }
}

fn config_file(context: &Context<'_>) -> String {
    let config = context.render.spec.config.clone().unwrap_or_default();
    let mut text = format!(
        r#"# Written by the operator from the KeeperCluster; the member's name comes from the environment.
[server]
data_dir = "{DATA_DIR}"

[listen]
client = "0.0.0.0:{CLIENT_PORT}"
peer = "0.0.0.0:{PEER_PORT}"
admin = "0.0.0.0:{ADMIN_PORT}"
http = "0.0.0.0:{HTTP_PORT}"

[cluster]
id = "{}"
secret_file = "{SECRET_DIR}/{CLUSTER_SECRET_KEY}"
admin_token_file = "{SECRET_DIR}/{ADMIN_TOKEN_KEY}"
"#,
        context.render.cluster_id
    );
    let session = config.session.unwrap_or_default();
    section(
        &mut text,
        "session",
        &[
            ("timeout_ms_min", session.timeout_ms_min.map(i64::from)),
            ("timeout_ms_max", session.timeout_ms_max.map(i64::from)),
        ],
    );
    let limits = config.limits.unwrap_or_default();
    section(&mut text, "limits", &[("frame_bytes_max", limits.frame_bytes_max)]);
    let words = config.four_letter_words.unwrap_or_else(|| FOUR_LETTER_WORDS.to_vec());
    let words: Vec<String> = words.iter().map(|word| format!("\"{}\"", word.as_str())).collect();
    let _ = write!(text, "\n[four_letter_words]\nallow = [{}]\n", words.join(", "));
    section(&mut text, "log", &[("snapshot_log_bytes", config.log.and_then(|log| log.snapshot_log_bytes))]);
    text
}

/// Writes a section with those of its values that are set; without any the server's own defaults hold.
fn section(text: &mut String, name: &str, values: &[(&str, Option<i64>)]) {
    if values.iter().all(|(_, value)| value.is_none()) {
        return;
    }
    let _ = write!(text, "\n[{name}]\n");
    for (key, value) in values {
        if let Some(value) = value {
            let _ = writeln!(text, "{key} = {value}");
        }
    }
}
