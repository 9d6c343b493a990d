//! Logs to standard error: text for people, JSON lines with `KEEPER_LOG_FORMAT=json`.

use tracing_subscriber::EnvFilter;

/// The level comes from `KEEPER_LOG` (such as `info` or `keeper_server=debug`), `info` by default; openraft's
/// own warnings repeat what consensus reports once.
pub fn install(default_level: &str) {
    let filter = EnvFilter::try_from_env("KEEPER_LOG")
        .unwrap_or_else(|_| EnvFilter::new(format!("{default_level},openraft=error")));
    let json = std::env::var("KEEPER_LOG_FORMAT").is_ok_and(|format| format == "json");
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    if json {
        builder.json().init();
    } else {
        builder.with_ansi(false).init();
    }
}
